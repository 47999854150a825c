"""The desk that answers questions: names to pseudonyms, one tenant to one scope, and who may ask for what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from detectors.queries import Queries
from engine_hooks.conventions import UNATTRIBUTED
from engine_hooks.identity import Key
from notify.answers import DonorAnswer, RecipientAnswer, ResponseAnswer, Scope
from notify.donors import affected_as_donor
from notify.errors import UnknownError, UsageError
from notify.gaps import (
    BOOTS,
    HOLES,
    LOSSY,
    SHORTFALLS,
    gap_sentences,
    loss_sentences,
    losses,
    shortfall_sentences,
    shortfalls,
    silences,
)
from notify.ids import WantedId
from notify.question import Question, Span
from notify.recipients import affected_as_recipient
from notify.responses import response_of_tenant
from notify.scope import TenantScope
from notify.tenant_store import TenantStore

_KNOWN_KEYS = """
SELECT DISTINCT tenant_key AS key FROM (
    SELECT tenant_key FROM tenant_responses UNION ALL SELECT tenant_key FROM tenant_evidence
    UNION ALL SELECT tenant_key FROM tenant_exposures
) ORDER BY key
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
        self._store = TenantStore(handle)
        self._pseudonym_keys = tuple(pseudonym_keys)
        self._evidence_keys = tuple(evidence_keys)
        self._silence = silence

    @property
    def key_ids(self) -> list[str]:
        """Ids of the pseudonym keys."""
        return [key.id for key in self._pseudonym_keys]

    def recipient(self, tenant: str, window: Span, scopes: tuple[Scope, ...]) -> RecipientAnswer:
        """Which responses of the tenant read foreign KV. Raises UnknownError for an unknown tenant."""
        question = self._question(tenant, window, scopes)
        return affected_as_recipient(self._store, question, self._gaps(question))

    def donor(self, tenant: str, window: Span, scopes: tuple[Scope, ...]) -> DonorAnswer:
        """Which responses of the tenant had KV that others read. Raises UnknownError for an unknown tenant."""
        question = self._question(tenant, window, scopes)
        return affected_as_donor(self._store, question, self._gaps(question))

    def response(self, tenant: str, wanted: str) -> ResponseAnswer:
        """One response of the tenant. Raises UnknownError where it is not known to be one."""
        scope, _keys = self._scope_of(tenant)
        return response_of_tenant(self._store, scope, WantedId.of(wanted, self._evidence_keys))

    def _question(self, tenant: str, window: Span, scopes: tuple[Scope, ...]) -> Question:
        scope, keys_seen = self._scope_of(tenant)
        return Question(tenant=tenant, scope=scope, keys_seen=keys_seen, window=window, scopes=scopes)

    def _gaps(self, question: Question) -> list[str]:
        boots = self._store.rows(question.scope, BOOTS)
        silent = silences(boots, datetime.now(UTC), self._silence)
        lossy = self._store.rows(question.scope, LOSSY)
        names = [row["boot"] for row in lossy]
        holes = self._store.rows(question.scope, HOLES, boots=names) if names else []
        uncounted = shortfalls(self._store.rows(question.scope, SHORTFALLS))
        window = question.window
        return [
            *gap_sentences(silent, window),
            *loss_sentences(losses(lossy, holes), window),
            *shortfall_sentences(uncounted, window),
        ]

    def _scope_of(self, tenant: str) -> tuple[TenantScope, tuple[str, ...]]:
        """The tenant's scope and the ids of the keys under which there is evidence of it."""
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
        keys_seen = tuple(row["key"] for row in self._store.rows(scope, _KNOWN_KEYS))
        if not keys_seen:
            tried = ", ".join(self.key_ids)
            raise UnknownError(
                f"unknown tenant {tenant[:64]!r}: no evidence names it under any key of this service ({tried}). Check "
                "the spelling; this is not an all-clear"
            )
        return scope, keys_seen
