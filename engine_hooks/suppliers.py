"""Who supplies each attribute of the contract: hooks of the engine, the recorder itself, the agent, the gateway, or
nobody yet.

Hooks are named by what they supply. Such a name is a fact of the table of hook points (`Target.facts`), or one of
:data:`ASIDES`: what a hook tells beside the facts that it is there for. Which hook points of which engine versions that
are is in the table alone. A test holds this module against the table and against what the hooks really call.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine_hooks import conventions as c
from engine_hooks.sglang_plugin.table import TABLE
from engine_hooks.sglang_plugin.targets import Target


class Who(enum.Enum):
    """Where a value comes from."""

    HOOKS = "hooks"
    RECORDER = "recorder"
    AGENT = "agent"
    GATEWAY = "gateway"
    NOBODY = "no supplier yet"


@dataclass(frozen=True, slots=True)
class Supplier:
    """Who supplies an attribute; `hooks`, from which hooks, by the names of what they supply."""

    who: Who
    hooks: tuple[str, ...] = ()


def _hooks(*names: str) -> Supplier:
    return Supplier(Who.HOOKS, names)


RECORDER, AGENT, GATEWAY, NOBODY = (Supplier(who) for who in (Who.RECORDER, Who.AGENT, Who.GATEWAY, Who.NOBODY))

ASIDES: Mapping[str, tuple[str, ...]] = {
    "page.share.match": ("steps.after_run_batch", "exact_steps.after_run_batch", "transfer.before_send_metadata"),
    "page.share.publish": ("release.before_publish", "release.before_release"),
    "slot.read": ("transfer.before_commit", "transfer.after_commit"),
    "room_check": ("transfer.after_commit",),
}
"""What hooks supply beside the facts that the table names: the handlers that do."""

_RESERVED, _DESTINATION, _QUEUED = "transfer.reserved", "transfer.destination", "transfer.queued"
_COMMITTED, _LANDED = "transfer.committed", "transfer.landed"
_SHARED = ("page.share.match", "page.share.publish", "page.share.load", "page.share.store")
_MANIFEST = _hooks(_RESERVED, _DESTINATION)

_OF_SPANS: Mapping[c.Span, Supplier] = {
    c.NODE_CONFIG: _hooks("node.config"),
    c.REQUEST_ADMISSION: _hooks("request.admission"),
    c.TRANSFER: _hooks(_RESERVED, _DESTINATION, _QUEUED, _COMMITTED, _LANDED),
    c.PAGE_READ: _hooks("page.read"),
    c.PAGE_RELEASE: _hooks("page.release"),
    c.RESPONSE: _hooks("response"),
    c.REQUEST_END: _hooks("request.end"),
    c.EMITTER_STATUS: AGENT,
    c.PAGE_ACQUIRE: _hooks("page.acquire"),
    c.PAGE_WRITE: _hooks("page.write", "page.share.load"),
    c.PAGE_SHARE: _hooks(*_SHARED),
    c.SLOT_USE: _hooks("slot.use", "slot.read"),
    c.PAGE_STEP: _hooks("page.step"),
    c.PAGE_FREE: _hooks("page.free"),
    c.ENGINE_ALARM: _hooks("alarm", "room_check"),
    c.CANARY: NOBODY,
    c.DELIVERY_FACT: GATEWAY,
}
"""Who supplies a span, and each of its attributes that is not listed below."""

_OF_ATTRIBUTES: Mapping[c.Span, Mapping[c.Attribute, Supplier]] = {
    c.NODE_CONFIG: {c.FINGERPRINT: RECORDER},
    c.TRANSFER: {
        c.ROOM: _MANIFEST,
        c.SESSION: _MANIFEST,
        c.DESTINATION: _MANIFEST,
        c.PAGES: _hooks(_RESERVED, _QUEUED),
        c.PAGE_COUNT: _hooks(_RESERVED, _DESTINATION, _QUEUED),
        c.PREFIX_TOKENS: _MANIFEST,
        c.PROMPT_TOKENS: _hooks(_RESERVED, _COMMITTED),
        c.CHUNK_PAGE: _hooks(_QUEUED),
        c.CHUNK_TOKENS: _hooks(_QUEUED),
        c.SENDER_PAGES: _hooks(_QUEUED),
        c.SLOT: _MANIFEST,
        c.PEER_RANK: _hooks(_LANDED),
        c.PEERS: _MANIFEST,
        c.CHUNK_LAST: _hooks(_QUEUED),
        c.PAGE_BYTES: _hooks(_RESERVED),
        c.STATE_PAGES: _hooks(_RESERVED, _DESTINATION, _QUEUED),
        c.FAILURE: _hooks(_LANDED),
        c.COMPONENTS: NOBODY,
    },
    c.PAGE_RELEASE: {
        c.RELEASE_MODE: _hooks("page.release", "page.release.mode", "page.release.shared"),
        c.PAGES: _hooks("page.release", "page.release.shared"),
        c.COMPONENT: NOBODY,
        c.GENERATION: NOBODY,
    },
    c.REQUEST_END: {c.FACTS: RECORDER},
    c.PAGE_ACQUIRE: {c.COMPONENT: NOBODY, c.ROW_GENERATION: NOBODY},
    c.PAGE_WRITE: {c.COMPONENT: NOBODY, c.STORAGE: NOBODY},
    c.PAGE_SHARE: {c.COMPONENT: NOBODY, c.AFTER_SEQ: NOBODY, c.PAGES: NOBODY},
    c.PAGE_FREE: {c.FREE_CAUSE: _hooks("page.free", "page.free.cause"), c.COMPONENT: NOBODY},
    c.ENGINE_ALARM: {
        c.ROW: _hooks("alarm"),
        c.POSITION: _hooks("alarm"),
        c.PAGES: _hooks("alarm"),
        c.SLOT: _hooks("room_check"),
    },
}

_OF_EVERY_FACT: Mapping[c.Attribute, Supplier] = {c.SEQ: RECORDER, c.ORDINAL: RECORDER}
_OF_A_LEG: Mapping[c.Attribute, Supplier] = {
    one.attribute: _hooks("request.admission") for one in c.LEG_FIELDS if one.attribute is not c.ORDINAL
}


def supplier_of(span: c.Span, attribute: c.Attribute) -> Supplier:
    """Who supplies this attribute on spans of this kind. Raises KeyError for one that the contract does not put
    there."""
    if attribute not in {one.attribute for one in c.fields_of(span)}:
        raise KeyError(f"{span.name} has no attribute {attribute.name}")
    if attribute in _OF_EVERY_FACT:
        return _OF_EVERY_FACT[attribute]
    if span.leg and attribute in _OF_A_LEG:
        return _OF_A_LEG[attribute] if _OF_SPANS[span].who is Who.HOOKS else _OF_SPANS[span]
    return _OF_ATTRIBUTES.get(span, {}).get(attribute, _OF_SPANS[span])


def hook_points(name: str) -> tuple[Target, ...]:
    """The rows of the table that supply what goes by this name; empty if none does."""
    handlers = ASIDES.get(name, ())
    return tuple(row for row in TABLE if name in row.facts or row.handler in handlers)


def named_hooks() -> tuple[str, ...]:
    """Every name by which this module names hooks, in order of first appearance."""
    names = {
        name: None
        for span in c.SPANS
        for field in c.fields_of(span)
        for name in supplier_of(span, field.attribute).hooks
    }
    return tuple(names)


def unsupplied() -> Iterator[tuple[c.Span, c.Attribute]]:
    """What the contract has a place for, and nobody tells yet."""
    for span in c.SPANS:
        for field in c.fields_of(span):
            if supplier_of(span, field.attribute).who is Who.NOBODY:
                yield span, field.attribute
