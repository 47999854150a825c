"""ASGI middleware for a provider's own gateway: who a request belongs to is said here, and by nobody else.

    app.add_middleware(TenantGateway, identify=lambda scope: Tenant(scope["state"]["customer"]))

For each inference request it asks the gateway's own `identify`, takes out what the client says about itself
(:mod:`engine_hooks.gateway_request` lists what, and why), and sets a `cache_salt` that the engine's hooks can check and
an id that nobody else knows. When the answer has reached the client, or has not, it records one `pagewitness.delivery`.

It never turns a request away because of us: what cannot be vouched for goes on without a salt, and is `unattributed`.
Only a body or a path that cannot be read safely is refused, before it reaches the engine. Its manual is
docs/tenant-identity.md.
"""

from __future__ import annotations

import inspect
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from engine_hooks.conventions import TRAFFIC, UNATTRIBUTED
from engine_hooks.gateway_exchange import (
    Answer,
    App,
    ClientGoneError,
    Receive,
    Replay,
    Scope,
    Send,
    read_body,
    refuse,
)
from engine_hooks.gateway_path import find_path, plain
from engine_hooks.gateway_recording import Recording
from engine_hooks.gateway_request import (
    INFERENCE_PATHS,
    InferencePath,
    Prepared,
    RefusedError,
    check_headers,
    clean_headers,
    prepare,
    removed_fields,
)
from engine_hooks.identity import Key, mint_salt, pseudonym
from engine_hooks.settings import Settings, load

DEFAULT_BODY_BYTES = 64 << 20
SCOPE_KEY = "pagewitness"
"""Where the application finds `{"cache_salt": .., "rid": ..}` in its scope, if it writes the engine's request anew."""

_METHODS = frozenset({"POST", "PUT"})  # the engine takes both at /generate
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who a request belongs to: the tenant's name, as `notify --tenant` will take it, and a traffic label
    (`customer`, `internal`, `researcher`, `canary`)."""

    name: str
    traffic: str = "customer"


Identify = Callable[[Scope], "Tenant | Awaitable[Tenant | None] | None"]
"""Says whose a request is, from the ASGI scope as the gateway's own authentication left it; None: nobody's."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What goes on with a request, and into its fact."""

    salt: str | None
    tenant: str = UNATTRIBUTED
    key_id: str = ""
    traffic: str = TRAFFIC.choices[0]


_NOBODY = _Claim(None)


class TenantGateway:
    """The middleware. `counts` holds how many requests were `vouched`, `unattributed` and `refused`, and how often
    `identify` failed (`identify_errors`), since the process began.

    `paths` are the paths of inference requests in the application, `keep` names fields that clients may set after all,
    `body_bytes` is the longest body, `name` the emitter's (default: the process id). Raises SettingsError for keys
    that cannot be used, ValueError for a field that cannot be kept.
    """

    def __init__(
        self,
        app: App,
        *,
        identify: Identify,
        settings: Settings | None = None,
        paths: Mapping[str, InferencePath] = INFERENCE_PATHS,
        keep: Collection[str] = (),
        body_bytes: int = DEFAULT_BODY_BYTES,
        name: str = "",
    ) -> None:
        known = load(scope="gateway") if settings is None else settings
        self._app = app
        self._identify = identify
        self._paths = {plain(path): shape for path, shape in paths.items()}
        self._removed = removed_fields(keep)
        self._body_bytes = body_bytes
        self._keys = _signing_keys(known)
        self._recording = Recording(known, name)
        self.counts: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI calls it."""
        if scope["type"] == "lifespan":
            self._recording.open()
            try:
                await self._app(scope, receive, send)
            finally:
                self._recording.close()
            return
        if scope["type"] != "http" or scope["method"].upper() not in _METHODS:
            await self._app(scope, receive, send)
            return
        try:
            name = find_path(scope, self._paths)
        except RefusedError as refusal:
            await self._refuse(send, refusal)
            return
        if name is None:
            await self._app(scope, receive, send)
        else:
            await self._infer(self._paths[name], scope, receive, send)

    async def _infer(self, path: InferencePath, scope: Scope, receive: Receive, send: Send) -> None:
        rid = secrets.token_hex(16)  # all of one length: none is the beginning of another
        try:
            check_headers(scope["headers"], self._body_bytes)
            body = await read_body(receive, self._body_bytes)
            claim = await self._claim(scope)
            request = prepare(body, path, salt=claim.salt, rid=rid, removed=self._removed)
        except RefusedError as refusal:
            await self._refuse(send, refusal)
            return
        except ClientGoneError:
            return  # nothing has gone to the engine
        self.counts["unattributed" if claim.salt is None else "vouched"] += 1
        forwarded = {**scope, "headers": list(clean_headers(scope["headers"], len(request.body)))}
        forwarded[SCOPE_KEY] = {"cache_salt": claim.salt, "rid": path.prefix + rid}
        await self._pass_on(request, claim, forwarded, receive, send)

    async def _refuse(self, send: Send, refusal: RefusedError) -> None:
        self.counts["refused"] += 1
        await refuse(send, refusal)

    async def _pass_on(self, request: Prepared, claim: _Claim, scope: Scope, receive: Receive, send: Send) -> None:
        # Another id than the engine's: what is stored of a response must not open what the engine keeps of it.
        response_id = secrets.token_hex(16)
        replay = Replay(request.body, receive)
        answer = Answer(send, response_id, replay)
        replay.watch()
        try:
            await self._app(scope, replay, answer)
        except BaseException as error:
            answer.broke(error)
            raise
        finally:
            replay.stop()
            state, status = answer.outcome()
            self._recording.delivery(
                request.rids,
                state=state,
                response_id=response_id,
                tenant=claim.tenant,
                tenant_key=claim.key_id,
                traffic=claim.traffic,
                status=status,
                client_salt=request.client_salt,
            )

    async def _claim(self, scope: Scope) -> _Claim:
        """Who the request belongs to, by the gateway's own word. Nobody, where there is none."""
        try:
            found = self._identify(scope)
            tenant = await found if inspect.isawaitable(found) else found
            if tenant is None or self._keys is None:
                return _NOBODY
            pseudonym_key, mac_key = self._keys
            salt = mint_salt(tenant.name, pseudonym_key=pseudonym_key, mac_key=mac_key, traffic=tenant.traffic)
            return _Claim(salt, pseudonym(pseudonym_key, tenant.name), pseudonym_key.id, tenant.traffic)
        except Exception as error:  # noqa: BLE001 - no request is lost because nobody could say whose it is
            self._count_identify_error(error)
            return _NOBODY

    def _count_identify_error(self, error: Exception) -> None:
        self.counts["identify_errors"] += 1
        self._recording.count_error()
        count = self.counts["identify_errors"]
        if str(count).strip("0") == "1":  # 1, 10, 100, ...: a broken `identify` fails with every request
            # Its message can hold anything: only its type is said.
            _log.warning(
                "identify failed %d times, now with %s: such requests are unattributed", count, type(error).__name__
            )


def _signing_keys(settings: Settings) -> tuple[Key, Key] | None:
    """The newest pseudonym key and the newest MAC key; None where one is missing."""
    missing = [
        name
        for name, keys in (
            ("PAGEWITNESS_PSEUDONYM_KEYS", settings.pseudonym_keys),
            ("PAGEWITNESS_MAC_KEYS", settings.mac_keys),
        )
        if not keys
    ]
    if missing:
        _log.warning("%s is not set: every request is unattributed", " and ".join(missing))
        return None
    return settings.pseudonym_keys[0], settings.mac_keys[0]
