"""Answers about a fleet held against the content of its pools: what was said wrongly, of which response, and how.

A response that was put aside has several decode legs, and each has an answer. It counts as a violation if one of them
is, and as clean if all of them are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from detectors.queries import Queries
from lab.fleet.job import Job
from lab.fleet.simulate import Fleet
from lab.fleet.truth import ResponseTruth

Row = Mapping[str, Any]
"""A row of the store's views `responses` and `foreign_ranges`."""

NOBODY = -1
NO_PAGE = -1
"""Page of a range that was read by way of a cache, or whose page no fact names."""

UNSURE_OF_CACHE = frozenset({"prefix_unattributed", "prefix_unvouched", "resumed_unvouched"})
"""Why an answer may be `unknown` with every fact there, where what it rests on is unknown, or nobody's."""
UNSURE_OF_LANDING = "read_before_landed"


@dataclass(slots=True)
class Held:
    """What was counted. `mistakes` says of each wrong answer which request it is of, and what is wrong."""

    responses: int = 0
    affected: int = 0
    unknown: int = 0
    affected_called_clean: int = 0
    unaffected_called_violation: int = 0
    unknown_with_full_evidence: int = 0
    wrong_donor: int = 0
    mistakes: list[str] = field(default_factory=list)

    def add(self, other: Held) -> None:
        """Count what another one counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def add_mistakes(self, other: Held) -> None:
        """Count what another one counted as wrong, and not its responses: they are the same ones, asked earlier."""
        self.add(replace(other, responses=0, affected=0, unknown=0))


def answers_about(store: Queries, fleet: Fleet) -> tuple[list[Row], list[Row]]:
    """What is said of the fleet's responses, and of what each had read."""
    uids = {"uids": [uid.hex() for job in fleet.jobs for uid in job.leg_uids]}
    answers = store.rows("SELECT * FROM responses WHERE response_uid IN {uids:Array(String)}", uids)
    return [*answers], [*store.rows("SELECT * FROM foreign_ranges WHERE response_uid IN {uids:Array(String)}", uids)]


def hold(fleet: Fleet, answers: Sequence[Row], ranges: Sequence[Row], *, full_evidence: bool) -> Held:
    """Hold the answers about a fleet against its content.

    `full_evidence`: no fact was lost, so nothing may be `unknown` but what rests on something that is, and each foreign
    slot has to be named.
    """
    held = Held()
    by_uid = {str(row["response_uid"]): row for row in answers}
    said: dict[str, list[Row]] = {}
    for part in ranges:
        said.setdefault(str(part["response_uid"]), []).append(part)
    names = {job.rid_digest.hex(): job.index for job in fleet.jobs}
    for job in fleet.jobs:
        uids = [uid.hex() for uid in job.leg_uids]
        rows = [by_uid[uid] for uid in uids if uid in by_uid]
        if rows or full_evidence:
            parts = [part for uid in uids for part in said.get(uid, ())]
            _hold_one(held, fleet, job, rows, parts, names, full_evidence=full_evidence)
    return held


def _hold_one(
    held: Held,
    fleet: Fleet,
    job: Job,
    rows: Sequence[Row],
    parts: Sequence[Row],
    names: Mapping[str, int],
    *,
    full_evidence: bool,
) -> None:
    truth = fleet.truth.affected.get(job.index)
    verdicts = {str(row["verdict"]) for row in rows}
    reasons = {str(reason) for row in rows for reason in row["reasons"]}
    wrong = []
    held.responses += 1
    held.affected += truth is not None
    held.unknown += "violation" not in verdicts and bool(verdicts & {"unknown", "pending"})
    if truth is not None and rows and rows[-1]["verdict"] == "clean":
        held.affected_called_clean += 1
        wrong.append("affected, and called clean")
    if truth is None and "violation" in verdicts:
        held.unaffected_called_violation += 1
        wrong.append("not affected, and called a violation")
    unsure = "violation" not in verdicts and verdicts != {"clean"}
    if full_evidence and unsure and not _may_be_unknown(job, reasons, truth):
        held.unknown_with_full_evidence += 1
        wrong.append("unknown, with every fact there")
    if truth is not None and "violation" in verdicts:
        # what came back from host memory was read in pages of which no answer names any, and of what was read too
        # soon nobody can say where it began
        whole = full_evidence and len(rows) == 1 and UNSURE_OF_LANDING not in reasons
        donors = _wrong_donors(truth, parts, names, whole=whole)
        held.wrong_donor += bool(donors)
        wrong += donors
    held.mistakes += [f"request {job.index} ({sorted(verdicts)}, {sorted(reasons)}): {what}" for what in wrong]


def _may_be_unknown(job: Job, reasons: set[str], truth: ResponseTruth | None) -> bool:
    if UNSURE_OF_LANDING in reasons:  # it did read too soon, whatever was there by then
        return job.read
    return bool(reasons) and reasons <= UNSURE_OF_CACHE and not (truth is not None and len(truth.foreign))


def _wrong_donors(truth: ResponseTruth, parts: Sequence[Row], names: Mapping[str, int], *, whole: bool) -> list[str]:
    """What is said wrongly of whose each slot was that the response read itself."""
    true: dict[tuple[int, int], set[int]] = {}  # a response that was put aside can have had one page twice
    for page, slot, _, owner in truth.foreign.tolist():
        true.setdefault((page, slot), set()).add(owner)
    said = {
        (part["page"], slot): part
        for part in parts
        if part["page"] != NO_PAGE
        for slot in range(part["slot_start"], part["slot_end"])
    }
    wrong = []
    for where, part in said.items():
        if where not in true:
            wrong.append(f"slot {where} is called foreign, and is its own")
        elif part["scope"] != "unattributed":
            named = names.get(part["donor_rid"], NOBODY) if part["donor_rid"] else NOBODY
            if named not in true[where]:
                wrong.append(f"slot {where} is said to be of request {named}, and is of {sorted(true[where])}")
    if whole and len(true) and true.keys() != said.keys():
        wrong.append(f"{len(true.keys() - said.keys())} foreign slots are not named")
    return wrong[:5]
