"""What the story of the oversized prompts is for."""

from __future__ import annotations

from lab.engine.checks import Check, Run, nothing_is_affected
from lab.engine.stories.story import VULNERABLE
from lab.engine.truth import NEVER_WRITTEN, STALE_PAGE, TRANSFER_TAIL
from lab.engine.truth_records import Records, Slots

SPARE_PAGES = 1
"""Pages that a pool may keep back: the engine asks for one page more than a prompt needs and never gets to the last."""

PAGE_BOUNDARIES = 3
"""How many page boundaries every answer has to cross while it is decoded."""


def every_slot_had_been_written(run: Run) -> list[str]:
    """No response read a slot that nothing ever wrote."""
    return [
        f"{response.rid} read {number} slots that nothing ever wrote: the pool was not warm"
        for response in run.truth.responses
        if (number := sum(slot.via == NEVER_WRITTEN for slot in response.slots))
    ]


def pools_are_warm(run: Run) -> list[str]:
    """Before the first oversized prompt every page of both pools but the spare was used, and most were used twice."""
    oversized = {outcome.rid for outcome in run.oversized}
    own: list[Slots] = [record for record in (*run.records.writes, *run.records.reads) if record.rid in oversized]
    until = min((record.t for record in own), default=None)
    found = []
    for start in run.records.starts:
        users = _users_of_pages(run.records, start.role, until)
        pages = set(range(1, start.slots // start.page_size + 1))  # page 0 is padding
        if (missing := len(pages - users.keys())) > SPARE_PAGES:
            found.append(f"the {start.role} pool was not warm: {missing} of {len(pages)} pages were never used")
        if (again := sum(len(rids) > 1 for rids in users.values())) * 2 < len(pages):
            found.append(f"the {start.role} pool did not recycle: {again} of {len(pages)} pages were used twice")
    return found


def _users_of_pages(records: Records, role: str, until: int | None) -> dict[int, set[str]]:
    size = records.starts[0].page_size
    users: dict[int, set[str]] = {}
    uses: list[Slots] = [write for write in records.writes if write.role == role]
    if role == "decode":
        uses += records.reads  # what a transfer filled, no forward of this node wrote
    for record in uses:
        if until is None or record.t < until:
            for slot in record.slots:
                users.setdefault(slot // size, set()).add(record.rid)
    return users


def answers_cross_pages(run: Run) -> list[str]:
    """Every answer crossed enough page boundaries while it was decoded."""
    size = run.truth.page_size
    written = run.written_by_decode()
    found = []
    for outcome in run.outcomes:
        if outcome.status == 200:
            crossed = len({slot // size for slot in written.get(outcome.rid, {}).values()}) - 1
            if crossed < PAGE_BOUNDARIES:
                found.append(f"the answer of {outcome.rid} crossed {crossed} page boundaries, not {PAGE_BOUNDARIES}")
    return found


def two_tenants_are_affected(run: Run) -> list[str]:
    """The responses to both oversized prompts read foreign bytes, and they are two tenants'."""
    affected = {response.rid for response in run.affected()}
    found = [
        f"the oversized {o.rid} of {o.tenant} read no foreign slot" for o in run.oversized if o.rid not in affected
    ]
    if len({run.tenant(rid) for rid in affected}) < 2:
        found.append(f"{len(affected)} responses of fewer than two tenants are affected")
    return found


def one_donor_came_with_a_transfer_only(run: Run) -> list[str]:
    """Some response read a tenant's bytes that it got from nowhere but the tail of a transferred page."""
    for response in run.affected():
        ways: dict[str, set[str]] = {}
        for slot in response.foreign:
            ways.setdefault(run.tenant(slot.owner), set()).add(slot.via)
        if {TRANSFER_TAIL} in ways.values():
            return []
    return ["no tenant is a donor by the tail of a transferred page alone"]


def decode_wrote_some_foreign_bytes(run: Run) -> list[str]:
    """Among the foreign slots are some that decode itself had written: parts of an answer."""
    written = {(rid, slot) for rid, slots in run.written_by_decode().items() for slot in slots.values()}
    size = run.truth.page_size
    stale = [s for response in run.affected() for s in response.foreign if s.via == STALE_PAGE]
    if any((slot.owner, slot.page * size + slot.slot) in written for slot in stale):
        return []
    return ["no foreign slot was written by a decode step"]


def second_reads_the_first(run: Run) -> list[str]:
    """The response to the second oversized prompt read bytes of the first one."""
    if len(run.oversized) < 2:
        return [f"{len(run.oversized)} oversized prompts were sent, not two"]
    first, second = (outcome.rid for outcome in run.oversized[:2])
    response = run.response(second)
    if response and any(slot.owner == first for slot in response.foreign):
        return []
    return [f"the second oversized response {second} read nothing of the first, {first}"]


def the_leak_could_be_read(run: Run) -> list[str]:
    """Both oversized prompts, which hold no marker, were answered 200 with a marker of another tenant."""
    return [
        f"the answer of the oversized {o.rid}: decode {o.status}, markers of others {o.echoed}"
        for o in run.oversized
        if o.status != 200 or not o.echoed
    ]


def oversized_prompts_are_rejected(run: Run) -> list[str]:
    """Prefill said 400 to each oversized prompt, and decode gave up waiting for it."""
    return [
        f"the oversized {o.rid}: prefill {o.prefill_status}, decode {o.status}"
        for o in run.oversized
        if o.prefill_status != 400 or o.status < 500
    ]


_ALWAYS: tuple[Check, ...] = (pools_are_warm, every_slot_had_been_written, answers_cross_pages)
_LEAK: tuple[Check, ...] = (
    two_tenants_are_affected,
    one_donor_came_with_a_transfer_only,
    decode_wrote_some_foreign_bytes,
    second_reads_the_first,
    the_leak_could_be_read,
)
_FIXED: tuple[Check, ...] = (nothing_is_affected, oversized_prompts_are_rejected)


def checks(version: str) -> tuple[Check, ...]:
    """What must hold of a run on this engine version."""
    return _ALWAYS + (_LEAK if version == VULNERABLE else _FIXED)
