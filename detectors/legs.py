"""Legs: everything that one emitter boot recorded about one attempt at one prompt, folded into one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from detectors.queries import Queries, Row
from engine_hooks.conventions import UNATTRIBUTED

NO_SESSION = "none"
"""The transfer session of a decode leg that has no prefill node (`engine_hooks.sglang_plugin.transfer`)."""


Identity: TypeAlias = tuple[str, str, str]
"""(uid, emitter, boot) of a leg."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk that prefill enqueued: where it goes in the destination list, and the source pages, in order."""

    first_page: int  # position in the destination list, from 0
    tokens: int  # valid tokens; the rest of the last page is what the source page held before
    pages: tuple[int, ...]  # source page ids in the prefill pool
    seq: int


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg as far as the evidence goes. `None` means that no fact said so. Token counts are positions from 0."""

    uid: str
    emitter: str
    boot: str
    tenant: str
    tenant_key: str
    traffic: str
    rid: str
    rooms: tuple[int, ...]
    session: str
    destination: str
    heard: datetime  # when the first of its facts reached the store
    started: datetime
    ended: datetime | None  # time of the end fact
    last_time: datetime
    first_seq: int
    last_seq: int  # of those that are here
    ordinals: tuple[int, ...]  # those that are here, sorted
    leg_facts: int | None  # how many the end fact says there were
    contradicted: bool  # one identity with two contents, or two values where a leg has one
    receives: bool  # has facts of the receiving side, or reads
    sends: bool  # has facts of the sending side
    admitted: bool
    rejected: bool
    reject_seq: int | None
    need_tokens: int | None
    input_limit: int | None
    reserved_at: datetime | None
    reserved_seq: int | None
    reserved_pages: int | None
    prompt_tokens: int | None
    prefix_tokens: int | None  # decode: prefix not transferred; from the reservation or prefill's receipt of it
    chunks: tuple[Chunk, ...]
    sender_pages: int | None
    committed: bool
    refused: bool
    read_tokens: int | None
    released: bool
    release_seq: int | None  # when it gave its pages up: on a device, its fact may come later
    releases: int  # facts that end its hold; more than one contradict each other
    released_pages: int | None
    release_ordinal: int | None
    cached_tokens: int | None  # leading tokens that came from this node's prefix cache
    written_start: int | None
    written_end: int | None
    finish: str
    http_status: int | None
    input_tokens: int | None
    output_tokens: int | None
    tokens_delivered: int | None
    end_state: str
    queued_pages: int | None  # totals of the end fact
    queued_tokens: int | None
    progress_seqs: tuple[int, ...]  # seqs of queued, committed and read facts
    acquired_pages: int | None  # exact tier: total of the end fact
    acquired_seen: int  # exact tier: pages that its acquire facts name
    resumes: str = ""  # uid of the retracted leg that this one goes on with
    loaded_tokens: int | None = None  # leading tokens that came back from host memory
    stored_tokens: int | None = None  # leading tokens that were kept there
    first_read: int | None = None  # tokens that the first of its reads attended over
    first_read_seq: int | None = None
    commit_seq: int | None = None
    peers: int | None = None  # prefill ranks whose word decode waits for
    landed: tuple[tuple[int, int], ...] = ()  # (prefill rank, seq) of each word that its part had landed
    sends_unseen: bool = False  # its node lacked a hook that tells of sending: no send means nothing then

    @property
    def identity(self) -> Identity:
        """What tells it from every other leg, and from the same one on another rank."""
        return self.uid, self.emitter, self.boot

    @property
    def alone(self) -> bool:
        """Whether the leg was never to meet another: the engine's fake backend stood in for its peer.

        SGLang's health checks are such requests, all of them in room 0; a client can send more. On decode the session
        has no name then; on prefill nobody says where to send, and nothing is sent.
        """
        if self.session:
            return self.session == NO_SESSION
        if self.receives or self.sends_unseen:  # a resumed request (its pages were filled before), or nobody knows
            return False
        untold = not self.destination and self.queued_pages == 0 and self.reserved_pages is None
        return untold and self.end_state == "finished" and self.complete

    @property
    def complete(self) -> bool:
        """Whether every fact of the leg is here: ordinals 1..n and an end fact that says n."""
        return (
            self.leg_facts is not None and self._has_all_up_to(self.leg_facts) and self.ordinals[-1] == self.leg_facts
        )

    @property
    def complete_to_release(self) -> bool:
        """Whether every fact up to the release of its pages is here: nothing is sent after that."""
        return self.release_ordinal is not None and self._has_all_up_to(self.release_ordinal)

    @property
    def sends_known(self) -> bool:
        """Whether every chunk that the leg enqueued is here."""
        return self.complete or self.complete_to_release

    def _has_all_up_to(self, ordinal: int) -> bool:
        # sorted, each once and from 1: the n-th is n only if none before it is missing
        enough = 0 < ordinal <= len(self.ordinals)
        return enough and not self.contradicted and self.ordinals[ordinal - 1] == ordinal


ENDS_HOLD = "span = 'pagewitness.page.release' AND release_mode != 'evict' AND component IN ('', 'kv')"
"""SQL: the fact with which a leg gives up its pages of the KV pool."""

_LEGS = """
SELECT
    uid, emitter, boot,
    groupUniqArray(tenant_id) AS tenants,
    max(tenant_key) AS tenant_key,
    max(traffic) AS traffic,
    max(rid) AS rid,
    groupUniqArrayIf(room, room IS NOT NULL) AS rooms,
    groupUniqArrayIf(transfer_session, transfer_session != '') AS sessions,
    groupUniqArrayIf(transfer_destination, transfer_destination != '') AS destinations,
    min(received_at) AS heard,
    min(time) AS started,
    if(countIf(span = 'pagewitness.request.end') = 0, NULL, maxIf(time, span = 'pagewitness.request.end')) AS ended,
    max(time) AS last_time,
    min(seq) AS first_seq,
    max(seq) AS last_seq,
    arraySort(groupUniqArray(assumeNotNull(leg_ordinal))) AS ordinals,
    count() AS fact_rows,
    max(leg_facts) AS leg_facts,
    max(contents) AS contents,
    countIf(transfer_side = 'receive' OR span = 'pagewitness.page.read') > 0 AS receives,
    countIf(transfer_side = 'send') > 0 AS sends,
    countIf(admission_state = 'admitted') > 0 AS admitted,
    countIf(admission_state = 'rejected') > 0 AS rejected,
    if(countIf(admission_state = 'rejected') = 0, NULL, minIf(seq, admission_state = 'rejected')) AS reject_seq,
    max(tokens_need) AS need_tokens,
    max(input_limit) AS input_limit,
    if(countIf(transfer_status = 'reserved') = 0, NULL, minIf(time, transfer_status = 'reserved')) AS reserved_at,
    if(countIf(transfer_status = 'reserved') = 0, NULL, minIf(seq, transfer_status = 'reserved')) AS reserved_seq,
    maxIf(page_count, transfer_status = 'reserved') AS reserved_pages,
    maxIf(prompt_tokens, span = 'pagewitness.transfer') AS prompt_tokens,
    maxIf(prefix_tokens, span = 'pagewitness.transfer') AS transfer_prefix,
    arraySort(groupArrayIf(
        (assumeNotNull(chunk_page), assumeNotNull(chunk_tokens), pages_start, pages_length, seq),
        transfer_status = 'queued')) AS chunks,
    max(sender_pages) AS sender_pages,
    countIf(transfer_status = 'committed') > 0 AS committed,
    countIf(transfer_status = 'refused') > 0 AS refused,
    max(read_tokens) AS read_tokens,
    countIf({release}) > 0 AS released,
    if(released, maxIf(coalesce(after_seq, seq), {release}), NULL) AS release_seq,
    countIf({release}) AS releases,
    if(countIf({release} AND pages_complete) = 0, NULL, maxIf(arraySum(pages_length), {release})) AS released_pages,
    if(released, maxIf(leg_ordinal, {release}), NULL) AS release_ordinal,
    maxIf(prefix_tokens, span = 'pagewitness.page.release' AND component IN ('', 'kv')) AS cached_tokens,
    maxIf(written_start, span = 'pagewitness.page.release' AND component IN ('', 'kv')) AS written_start,
    maxIf(written_end, span = 'pagewitness.page.release' AND component IN ('', 'kv')) AS written_end,
    max(acquired_pages) AS acquired_pages,
    sumIf(arraySum(pages_length), span = 'pagewitness.page.acquire') AS acquired_seen,
    max(finish) AS finish,
    maxIf(http_response_status_code, span = 'pagewitness.response') AS http_status,
    max(gen_ai_usage_input_tokens) AS input_tokens,
    max(gen_ai_usage_output_tokens) AS output_tokens,
    max(tokens_delivered) AS tokens_delivered,
    max(end_state) AS end_state,
    groupUniqArrayIf(leg_resumes, leg_resumes != '') AS resumed,
    maxIf(facts.written_end, purpose = 'load' AND facts.written_start = 0) AS loaded_tokens,
    maxIf(shared_tokens, share_operation = 'store' AND key_composition = ['request']) AS stored_tokens,
    minIf(facts.read_tokens, span = 'pagewitness.page.read') AS first_read,
    if(countIf(span = 'pagewitness.page.read') = 0, NULL, minIf(seq, span = 'pagewitness.page.read')) AS first_read_seq,
    if(committed, minIf(seq, transfer_status = 'committed'), NULL) AS commit_seq,
    max(peers) AS peers,
    arraySort(groupArrayIf((coalesce(peer_rank, 0), seq), transfer_status = 'landed' AND transfer_side = 'receive'))
        AS landed,
    max(queued_pages) AS queued_pages,
    max(queued_tokens) AS queued_tokens,
    groupArrayIf(seq, transfer_status IN ('queued', 'committed') OR span = 'pagewitness.page.read') AS progress_seqs
FROM facts
WHERE {where} AND leg_ordinal IS NOT NULL
GROUP BY uid, emitter, boot
ORDER BY started, uid, emitter, boot
""".replace("{release}", ENDS_HOLD)


def expand_runs(starts: Sequence[int], lengths: Sequence[int]) -> tuple[int, ...]:
    """Page ids of run-lengths, in order."""
    return tuple(page for start, length in zip(starts, lengths, strict=True) for page in range(start, start + length))


def _leg(row: Row) -> Leg:
    tenants = sorted(row["tenants"])
    single = all(len(row[name]) <= 1 for name in ("tenants", "sessions", "destinations", "rooms", "resumed"))
    return Leg(
        uid=row["uid"],
        emitter=row["emitter"],
        boot=row["boot"],
        tenant=tenants[0] if len(tenants) == 1 else UNATTRIBUTED,
        tenant_key=row["tenant_key"],
        traffic=row["traffic"],
        rid=row["rid"],
        rooms=tuple(row["rooms"]),
        session=row["sessions"][0] if row["sessions"] else "",
        destination=row["destinations"][0] if row["destinations"] else "",
        heard=row["heard"],
        started=row["started"],
        ended=row["ended"],
        last_time=row["last_time"],
        first_seq=row["first_seq"],
        last_seq=row["last_seq"],
        ordinals=tuple(row["ordinals"]),
        leg_facts=row["leg_facts"],
        contradicted=row["contents"] > 1 or not single or row["fact_rows"] != len(row["ordinals"]),
        receives=bool(row["receives"]),
        sends=bool(row["sends"]),
        admitted=bool(row["admitted"]),
        rejected=bool(row["rejected"]),
        reject_seq=row["reject_seq"],
        need_tokens=row["need_tokens"],
        input_limit=row["input_limit"],
        reserved_at=row["reserved_at"],
        reserved_seq=row["reserved_seq"],
        reserved_pages=row["reserved_pages"],
        prompt_tokens=row["prompt_tokens"],
        prefix_tokens=row["transfer_prefix"],
        chunks=tuple(
            Chunk(page, tokens, expand_runs(starts, lengths), seq)
            for page, tokens, starts, lengths, seq in row["chunks"]
        ),
        sender_pages=row["sender_pages"],
        committed=bool(row["committed"]),
        refused=bool(row["refused"]),
        read_tokens=row["read_tokens"],
        released=bool(row["released"]),
        release_seq=row["release_seq"],
        releases=row["releases"],
        released_pages=row["released_pages"],
        release_ordinal=row["release_ordinal"],
        cached_tokens=row["cached_tokens"],
        written_start=row["written_start"],
        written_end=row["written_end"],
        finish=row["finish"],
        http_status=row["http_status"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        tokens_delivered=row["tokens_delivered"],
        end_state=row["end_state"],
        queued_pages=row["queued_pages"],
        queued_tokens=row["queued_tokens"],
        progress_seqs=tuple(sorted(row["progress_seqs"])),
        acquired_pages=row["acquired_pages"],
        acquired_seen=row["acquired_seen"],
        resumes=row["resumed"][0] if row["resumed"] else "",
        loaded_tokens=row["loaded_tokens"],
        stored_tokens=row["stored_tokens"],
        first_read=row["first_read"],
        first_read_seq=row["first_read_seq"],
        commit_seq=row["commit_seq"],
        peers=row["peers"],
        landed=tuple(row["landed"]),
    )


def legs_by_uid(store: Queries, uids: Sequence[str]) -> list[Leg]:
    """The legs with these uids, oldest first."""
    if not uids:
        return []
    sql = _LEGS.replace("{where}", "uid IN {uids:Array(String)}")
    return [_leg(row) for row in store.rows(sql, {"uids": sorted(set(uids))})]


def uids_of_rooms(store: Queries, rooms: Sequence[int], most: int) -> dict[int, list[str]]:
    """Uids of every leg that named one of these rooms; of a room with more than `most`, `most` + 1 of them."""
    if not rooms:
        return {}
    rows = store.rows(_OF_ROOMS, {"rooms": sorted(set(rooms)), "most": most + 1})
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["room"], []).append(row["uid"])
    return found


def uids_of_rids(store: Queries, legs: Sequence[Leg], most: int) -> list[str]:
    """Uids of legs with the request id of one of these, at about their time; at most `most` of each id."""
    rids = sorted({leg.rid for leg in legs if leg.rid})
    if not rids:
        return []
    first, last = min(leg.started for leg in legs) - _DAY, max(leg.last_time for leg in legs) + _DAY
    params = {"rids": rids, "most": most, "first": first, "last": last}
    return [row["uid"] for row in store.rows(_OF_RIDS, params)]


_DAY = timedelta(days=1)
_OF_ROOMS = """
SELECT DISTINCT room, uid FROM facts WHERE room IN {rooms:Array(Int64)} AND leg_ordinal IS NOT NULL
ORDER BY room, uid LIMIT {most:Int64} BY room
"""
_OF_RIDS = """
SELECT DISTINCT rid, uid FROM facts
WHERE rid IN {rids:Array(String)} AND leg_ordinal IS NOT NULL
    AND time BETWEEN {first:DateTime64(9, 'UTC')} AND {last:DateTime64(9, 'UTC')}
ORDER BY rid, uid LIMIT {most:Int64} BY rid
"""
