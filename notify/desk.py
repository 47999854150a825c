"""The desk that answers questions: names to pseudonyms, one tenant to one scope, and who may ask for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from detectors.queries import Queries
from engine_hooks.conventions import UNATTRIBUTED
from engine_hooks.identity import Key
from notify.answers import DonorAnswer, RecipientAnswer, ResponseAnswer, Scope
from notify.donors import affected_as_donor
from notify.errors import UnknownError, UsageError
from notify.gaps import why_incomplete
from notify.ids import WantedId
from notify.incidents.definition import Incident
from notify.incidents.frozen import reference, tenant_tables
from notify.question import Question, Span
from notify.recipients import affected_as_recipient
from notify.responses import response_of_tenant
from notify.scope import TenantScope
from notify.tenant_store import TenantStore

_HEARD_KEYS = "SELECT DISTINCT tenant_key AS key FROM tenant_heard"
_JUDGED_KEYS = """
SELECT tenant_key AS key FROM tenant_known GROUP BY tenant_key HAVING sum(sign) > 0
UNION DISTINCT SELECT tenant_key AS key FROM tenant_exposures
"""


class TenantDesk:
    """Answers about one tenant at a time. It holds every pseudonym key; the commands that ask hold none.

    An emitter that no agent spoke of for `silence` counts as a gap.
    """

    def __init__(
        self,
        handle: Queries,
        pseudonym_keys: Sequence[Key],
        evidence_keys: Sequence[Key],
        silence: timedelta = timedelta(minutes=1),
    ) -> None:
        self._handle = handle
        self._store = TenantStore(handle)
        self._pseudonym_keys = tuple(pseudonym_keys)
        self._evidence_keys = tuple(evidence_keys)
        self._silence = silence

    @property
    def key_ids(self) -> list[str]:
        """Ids of the pseudonym keys."""
        return [key.id for key in self._pseudonym_keys]

    def recipient(
        self,
        tenant: str,
        window: Span,
        scopes: tuple[Scope, ...],
        incident: Incident | None = None,
        *,
        include_unsure: bool = False,
    ) -> RecipientAnswer:
        """Which responses of the tenant read foreign KV. Raises UnknownError for an unknown tenant.

        With an incident: of those that it is about, as they stood when it was frozen; its window and scopes are to be
        asked for.
        """
        store = self._frozen(incident)
        question = replace(self._question(store, tenant, window, scopes, incident), include_unsure=include_unsure)
        return affected_as_recipient(store, question, self._gaps(store, question, incident))

    def donor(
        self, tenant: str, window: Span, scopes: tuple[Scope, ...], incident: Incident | None = None
    ) -> DonorAnswer:
        """Which responses of the tenant had KV that others read. Raises UnknownError for an unknown tenant.

        With an incident: by those that it is about.
        """
        store = self._frozen(incident)
        question = self._question(store, tenant, window, scopes, incident)
        return affected_as_donor(store, question, self._gaps(store, question, incident))

    def response(self, tenant: str, wanted: str) -> ResponseAnswer:
        """One response of the tenant. Raises UnknownError where it is not known to be one."""
        scope, _keys = self.scope_of(tenant)
        return response_of_tenant(self._store, scope, WantedId.of(wanted, self._evidence_keys))

    def _frozen(self, incident: Incident | None) -> TenantStore:
        return self._store if incident is None else TenantStore(self._handle, tenant_tables(incident))

    def _question(
        self, store: TenantStore, tenant: str, window: Span, scopes: tuple[Scope, ...], incident: Incident | None
    ) -> Question:
        scope, keys_seen = self.scope_of(tenant, store)
        about = reference(incident) if incident else None
        return Question(tenant=tenant, scope=scope, keys_seen=keys_seen, window=window, scopes=scopes, incident=about)

    def _gaps(self, store: TenantStore, question: Question, incident: Incident | None) -> list[str]:
        if incident is None:
            ask = partial(store.rows, question.scope)
            return why_incomplete(ask, question.window, self._silence)
        excluded = set(question.scope.pseudonyms) & set(incident.definition.excluded_tenants)
        left_out = ["the incident leaves this tenant's responses out: ask without --incident for them"]
        return [*incident.gaps, *(left_out if excluded else [])]

    def scope_of(self, tenant: str, store: TenantStore | None = None) -> tuple[TenantScope, tuple[str, ...]]:
        """The tenant's scope and the ids of the keys under which there is evidence of it, in `store` where given.

        Raises UsageError for what is nobody's name, UnknownError where no evidence names it.
        """
        if not tenant:
            raise UsageError("the tenant's name is empty")
        if tenant == UNATTRIBUTED:
            raise UsageError(
                f"{UNATTRIBUTED!r} is nobody's name: requests that no gateway vouched for are in the operator's view, "
                "`notify operator responses --unattributed`"
            )
        if not self._pseudonym_keys:
            raise UnknownError(
                "this service has no pseudonym key, so it cannot find a tenant by name: set PAGEWITNESS_PSEUDONYM_KEYS "
                "where `pagewitness serve` runs"
            )
        scope = TenantScope.of(tenant, self._pseudonym_keys)
        keys_seen = self._keys_seen(scope, store or self._store)
        if not keys_seen:
            tried = ", ".join(self.key_ids)
            raise UnknownError(
                f"unknown tenant {tenant[:64]!r}: no evidence names it under any key of this service ({tried}). Check "
                "the spelling; this is not an all-clear"
            )
        return scope, keys_seen

    @staticmethod
    def _keys_seen(scope: TenantScope, store: TenantStore) -> tuple[str, ...]:
        seen = {row["key"] for row in store.rows(scope, _HEARD_KEYS)}
        unseen = tuple(one for one in scope.pseudonyms if one[0] not in seen)
        if unseen:  # no evidence names them, and yet verdicts can
            seen |= {row["key"] for row in store.rows(TenantScope(unseen), _JUDGED_KEYS)}
        return tuple(sorted(seen))
