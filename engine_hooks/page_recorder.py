"""What the hooks call of the page life cycle: acquired, written, shared, stepped over, freed; slots; alarms.

The rules of :mod:`engine_hooks.recorder` hold: no method blocks, raises or keeps a reference; each returns whether the
fact is in the ring, and a fact of a leg that is not has used up an ordinal.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from engine_hooks import conventions as c
from engine_hooks.facts import IDENTITY, KEY_ID_BYTES, enum_index, layout_of
from engine_hooks.facts import page_bytes as _bytes_of
from engine_hooks.ring import Ring

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ACQUIRE = layout_of(c.PAGE_ACQUIRE)
_WRITE = layout_of(c.PAGE_WRITE)
_SHARE = layout_of(c.PAGE_SHARE)
_SLOT = layout_of(c.SLOT_USE)
_STEP = layout_of(c.PAGE_STEP)
_FREE = layout_of(c.PAGE_FREE)
_ALARM = layout_of(c.ENGINE_ALARM)

_TRAFFIC_INDEX = enum_index(c.TRAFFIC)
_PURPOSE_INDEX = enum_index(c.PURPOSE)
_COMPONENT_INDEX = enum_index(c.COMPONENT)
_STORAGE_INDEX = enum_index(c.STORAGE)
_SHARE_INDEX = enum_index(c.SHARE)
_SLOT_INDEX = enum_index(c.SLOT_OPERATION)
_STEP_INDEX = enum_index(c.STEP_MODE)
_CAUSE_INDEX = enum_index(c.FREE_CAUSE)
_ALARM_INDEX = enum_index(c.ALARM)
_ACTION_INDEX = enum_index(c.ALARM_ACTION)
_ALARM_REASON_INDEX = enum_index(c.ALARM_REASON)

_ACQUIRE_BITS = _ACQUIRE.required(None)
_ACQUIRE_COMPONENT = _ACQUIRE.presence(c.COMPONENT.name)
_ACQUIRE_ROW = _ACQUIRE.presence(c.ROW.name)
_ACQUIRE_ROW_GENERATION = _ACQUIRE.presence(c.ROW_GENERATION.name)
_ACQUIRE_AFTER = _ACQUIRE.presence(c.AFTER_SEQ.name)
_ACQUIRE_GENERATION = _ACQUIRE.presence(c.GENERATION.name)
_WRITE_BITS = _WRITE.required(None)
_WRITE_COMPONENT = _WRITE.presence(c.COMPONENT.name)
_WRITE_STORAGE = _WRITE.presence(c.STORAGE.name)
_SHARE_BITS = _SHARE.required(None)
_SHARE_NAMESPACE = _SHARE.presence(c.NAMESPACE.name)
_SHARE_COMPONENT = _SHARE.presence(c.COMPONENT.name)
_SHARE_AFTER = _SHARE.presence(c.AFTER_SEQ.name)
_SHARE_PAGES = _SHARE.presence(c.PAGES.name)
_SLOT_BITS = _SLOT.required(None)
_SLOT_OWN_ROOM = _SLOT.presence(c.ROOM.name)
_SLOT_NAMED_ROOM = _SLOT.presence(c.SLOT_ROOM.name)
_STEP_BITS = _STEP.required(None)
_FREE_BITS = _FREE.required(None)
_FREE_COMPONENT = _FREE.presence(c.COMPONENT.name)
_FREE_AFTER = _FREE.presence(c.AFTER_SEQ.name)
_FREE_GENERATION = _FREE.presence(c.GENERATION.name)
_ALARM_BITS = _ALARM.required(None)
_ALARM_ROW = _ALARM.presence(c.ROW.name)
_ALARM_POSITION = _ALARM.presence(c.POSITION.name)
_ALARM_SLOT = _ALARM.presence(c.SLOT.name)
_ALARM_PAGES = _ALARM.presence(c.PAGES.name)

_NO_DIGEST = bytes(16)
_NO_LEG = bytes(IDENTITY.size)
_NO_PAGES = memoryview(b"")


class Leg:
    """One leg as the recorder needs it, made once a leg.

    `uid` and `tenant` are 16 bytes (tenant all zero = unattributed), `tenant_key` the id of the pseudonym key (''
    when unattributed), `traffic` a label of the contract. `ordinal` is the number of the leg's latest fact.
    Raises ValueError for values of another shape.
    """

    __slots__ = ("identity", "ordinal", "take", "traffic", "uid")

    def __init__(self, uid: bytes, tenant: bytes, tenant_key: str, traffic: str) -> None:
        key = tenant_key.encode("ascii")
        if len(uid) != 16 or len(tenant) != 16 or len(key) > KEY_ID_BYTES or uid == _NO_DIGEST:
            raise ValueError(
                "a leg needs a non-zero uid and a tenant of 16 bytes, and a key id of at most 8 characters"
            )
        if traffic not in _TRAFFIC_INDEX:
            raise ValueError(f"traffic is one of {', '.join(_TRAFFIC_INDEX)}")
        self.uid = uid
        self.identity = IDENTITY.pack(uid, tenant, key)
        self.traffic = _TRAFFIC_INDEX[traffic]
        self.take = count(1).__next__  # atomic: a leg can be seen by two threads
        self.ordinal = 0


class PageRecorder:
    """The recorder's methods for the life of pages; hooks use `engine_hooks.recorder.Recorder`, which has them all."""

    __slots__ = ("_append", "ring")

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._append = ring.append

    def acquire(
        self,
        leg: Leg,
        *,
        purpose: str,
        pages: ReadableBuffer,
        acquired_from: int,
        generations: ReadableBuffer | None = None,
        component: str = "kv",
        row: int | None = None,
        row_generation: int | None = None,
        after_seq: int | None = None,
    ) -> bool:
        """The leg got these pages from the free list, for token positions from `acquired_from` on; `generations` is
        one int32 a page."""
        try:
            leg.ordinal = ordinal = leg.take()
            view = _bytes_of(pages)
            presence = _ACQUIRE_BITS
            tail = view
            counts = 0
            if generations is not None:
                presence |= _ACQUIRE_GENERATION
                numbers = _bytes_of(generations)
                counts = numbers.nbytes
                if counts != view.nbytes:
                    return self.hook_error()
                tail = memoryview(b"".join((view, numbers)))
            if component != "kv":
                presence |= _ACQUIRE_COMPONENT
            if row is not None:
                presence |= _ACQUIRE_ROW
            if row_generation is not None:
                presence |= _ACQUIRE_ROW_GENERATION
            if after_seq is not None:
                presence |= _ACQUIRE_AFTER
            values = (
                leg.identity, ordinal, presence, _PURPOSE_INDEX[purpose], view.nbytes, acquired_from,
                _COMPONENT_INDEX[component], row or 0, row_generation or 0, after_seq or 0, counts,
            )  # fmt: skip
            return self._append(_ACQUIRE, leg.traffic, values, b"", tail)
        except Exception:  # noqa: BLE001 - the engine must not notice; counted, and the agent reports it
            return self.hook_error()

    def write(
        self, leg: Leg, *, purpose: str, start: int, end: int, component: str = "kv", storage: str = "device"
    ) -> bool:
        """A completed forward or load wrote the leg's token positions [start, end)."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _WRITE_BITS
            if component != "kv":
                presence |= _WRITE_COMPONENT
            if storage != "device":
                presence |= _WRITE_STORAGE
            values = (
                leg.identity, ordinal, presence, _PURPOSE_INDEX[purpose], start, end, _COMPONENT_INDEX[component],
                _STORAGE_INDEX[storage],
            )  # fmt: skip
            return self._append(_WRITE, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see acquire
            return self.hook_error()

    def share(
        self,
        leg: Leg,
        *,
        operation: str,
        tokens: int,
        key_composition: bytes,
        storage: str = "device",
        namespace: bytes | None = None,
        pages: ReadableBuffer | None = None,
        component: str = "kv",
        after_seq: int | None = None,
    ) -> bool:
        """Pages passed between the leg and a cache. `key_composition` is words joined by line breaks, as UTF-8."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _SHARE_BITS
            view = _NO_PAGES
            if pages is not None:
                presence |= _SHARE_PAGES
                view = _bytes_of(pages)
            if namespace is not None:
                presence |= _SHARE_NAMESPACE
            if component != "kv":
                presence |= _SHARE_COMPONENT
            if after_seq is not None:
                presence |= _SHARE_AFTER
            values = (
                leg.identity, ordinal, presence, _SHARE_INDEX[operation], tokens, _STORAGE_INDEX[storage],
                len(key_composition), digest_of(namespace or _NO_DIGEST), _COMPONENT_INDEX[component], after_seq or 0,
                view.nbytes,
            )  # fmt: skip
            return self._append(_SHARE, leg.traffic, values, key_composition, view)
        except Exception:  # noqa: BLE001 - see acquire
            return self.hook_error()

    def slot_use(self, leg: Leg, *, operation: str, slot: int, room: int | None, slot_room: int | None) -> bool:
        """A metadata slot was filled or read: the leg's own room, and the one that the slot names (keyed digests)."""
        try:
            leg.ordinal = ordinal = leg.take()
            presence = _SLOT_BITS
            if room:
                presence |= _SLOT_OWN_ROOM
            if slot_room:
                presence |= _SLOT_NAMED_ROOM
            values = (leg.identity, ordinal, presence, _SLOT_INDEX[operation], slot, room or 0, slot_room or 0)
            return self._append(_SLOT, leg.traffic, values)
        except Exception:  # noqa: BLE001 - see acquire
            return self.hook_error()

    def step(
        self,
        *,
        mode: str,
        rows: ReadableBuffer,
        row_generations: ReadableBuffer,
        starts: ReadableBuffer,
        ends: ReadableBuffer,
    ) -> bool:
        """One forward of a batch: four int32 lists in the order of the batch; `row_generations` may be empty."""
        try:
            parts = [_bytes_of(rows), _bytes_of(row_generations), _bytes_of(starts), _bytes_of(ends)]
            counted, generations, begun, ended = sizes = [part.nbytes for part in parts]
            if not counted == begun == ended or generations not in (0, counted):
                return self.hook_error()
            values = (_STEP_BITS, _STEP_INDEX[mode], *sizes)
            return self._append(_STEP, 0, values, b"", memoryview(b"".join(parts)))
        except Exception:  # noqa: BLE001 - see acquire
            return self.hook_error()

    def free(
        self,
        *,
        cause: str,
        pages: ReadableBuffer,
        generations: ReadableBuffer | None = None,
        component: str = "kv",
        after_seq: int | None = None,
    ) -> bool:
        """Pages went back to the free list."""
        try:
            tail = view = _bytes_of(pages)
            presence = _FREE_BITS
            counts = 0
            if generations is not None:
                presence |= _FREE_GENERATION
                numbers = _bytes_of(generations)
                counts = numbers.nbytes
                if counts != view.nbytes:
                    return self.hook_error()
                tail = memoryview(b"".join((view, numbers)))
            if component != "kv":
                presence |= _FREE_COMPONENT
            if after_seq is not None:
                presence |= _FREE_AFTER
            values = (
                presence, _CAUSE_INDEX[cause], view.nbytes, _COMPONENT_INDEX[component], after_seq or 0, counts,
            )  # fmt: skip
            return self._append(_FREE, 0, values, b"", tail)
        except Exception:  # noqa: BLE001 - see acquire
            return self.hook_error()

    def alarm(
        self,
        leg: Leg | None,
        *,
        alarm: str,
        action: str,
        reason: str,
        row: int | None = None,
        position: int | None = None,
        slot: int | None = None,
        pages: ReadableBuffer | None = None,
    ) -> bool:
        """The engine, or a guard, caught something itself; `leg` is None where nothing says whose it was."""
        try:
            presence = _ALARM_BITS
            view = _NO_PAGES
            if row is not None:
                presence |= _ALARM_ROW
            if position is not None:
                presence |= _ALARM_POSITION
            if slot is not None:
                presence |= _ALARM_SLOT
            if pages is not None:
                presence |= _ALARM_PAGES
                view = _bytes_of(pages)
            ordinal = 0
            if leg is not None:
                leg.ordinal = ordinal = leg.take()
            values = (
                _NO_LEG if leg is None else leg.identity, ordinal, presence, _ALARM_INDEX[alarm],
                _ACTION_INDEX[action], _ALARM_REASON_INDEX[reason], row or 0, position or 0, slot or 0, view.nbytes,
            )  # fmt: skip
            return self._append(_ALARM, 0 if leg is None else leg.traffic, values, b"", view)
        except Exception:  # noqa: BLE001 - see acquire
            return self.hook_error()

    def hook_error(self) -> bool:
        """Count an exception that a hook swallowed. Returns False, so that a failed record can return it."""
        self.ring.count_error()
        return False

    def close(self) -> None:
        """Mark the ring as cleanly closed; later facts are refused."""
        self.ring.close()


def digest_of(value: bytes) -> bytes:
    """The value, if it has the 16 bytes of a digest. Raises ValueError: struct would cut or pad it without a word."""
    if len(value) != 16:
        raise ValueError("a digest has 16 bytes")
    return value
