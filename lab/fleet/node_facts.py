"""What a node of the fleet records: the facts of one boot, through the recorder that the hooks use, in their order.

This is the seam between the simulation and evidence: another implementation of these methods may encode in bulk.
"""

from __future__ import annotations

from engine_hooks.identity import EvidenceKey, parse_keys
from engine_hooks.recorder import Leg, Recorder
from lab.engine import keys
from lab.fleet.job import Job
from lab.fleet.pages import Pages
from lab.fleet.ring import SimulatedRing
from lab.fleet.spec import FleetSpec
from lab.fleet.workload import PSEUDONYM_KEY, TRAFFIC

EVIDENCE_KEY = EvidenceKey(parse_keys(keys.EVIDENCE_KEY)[0])
"""Makes the digests of a fleet's evidence: no secret."""

SESSION = "decode"
_NO_TRANSFER = 0
_COMPOSITION = b"tokens\ncache_salt\nextra_key\nlora"
_REJECTED, _FAILED = 400, 500


class NodeFacts:
    """Facts of one boot of one node."""

    def __init__(self, ring: SimulatedRing, spec: FleetSpec, role: str, node_boot: bytes) -> None:
        self.ring = ring
        self.recorder = Recorder(ring)
        self._role = role
        self._node_boot = node_boot
        self._context = spec.decode_tokens
        self._limit = spec.prefill_limit if role == "prefill" else spec.decode_tokens - 6
        self._cache = spec.prefix_cache
        self.recorder.node_config(
            node_id=node_boot,
            role=role,
            rank=0,
            ranks=1,
            engine="sglang",
            engine_version="0.5.23",
            model=spec.model,
            context_tokens=self._context,
            pool_tokens=(spec.prefill_pages if role == "prefill" else spec.decode_pages) * spec.page_size,
            input_limit=self._limit,
            page_size=spec.page_size,
            kv_dtype="bfloat16",
            kv_layers=2,
            backend="mooncake",
            prefix_cache=spec.prefix_cache,
            tier="control",
            hooks_attached=(),
            hooks_missing=(),
            rank_names=(ring.emitter,),
        )

    def leg(self, job: Job, attempt: int = 0) -> Leg:
        """A new leg of this request on this node."""
        uid = EVIDENCE_KEY.uid(self._node_boot, job.rid, job.room, attempt)
        return Leg(uid, job.tenant, PSEUDONYM_KEY.id, TRAFFIC[job.traffic])

    def admitted(self, job: Job, leg: Leg, resumes: bytes | None = None) -> None:
        """The node takes the request in."""
        self._admission(job, leg, "admitted", "none", None, resumes)

    def rejected(self, job: Job, leg: Leg) -> None:
        """The node rejects the request: its prompt is too long."""
        self._admission(job, leg, "rejected", "input_too_long", _REJECTED, None)

    def reserved(self, job: Job, leg: Leg, pages: Pages, prefix: int) -> None:
        """Decode tells prefill where to write."""
        self.recorder.transfer_reserved(
            leg,
            room=job.room_digest,
            session=f"{SESSION}-{job.decode_number}",
            destination=job.destination,
            pages=pages.data,
            prefix_tokens=prefix,
            prompt_tokens=job.prompt,
            slot=job.slot,
            peers=1,
        )
        if prefix:
            self.matched(job, leg, prefix)

    def told(self, job: Job, leg: Leg, count: int, prefix: int) -> None:
        """Prefill hears where to write."""
        self.recorder.transfer_destination(
            leg,
            room=job.room_digest,
            session=f"{SESSION}-{job.decode_number}",
            destination=job.destination,
            page_count=count,
            prefix_tokens=prefix,
            slot=job.slot,
            peers=1,
        )

    def matched(self, job: Job, leg: Leg, tokens: int) -> None:
        """The leg starts with tokens out of the node's prefix cache."""
        self.recorder.share(
            leg, operation="match", tokens=tokens, key_composition=_COMPOSITION, namespace=self._namespace(job)
        )

    def queued(self, leg: Leg, pages: Pages, first: int, tokens: int, total: int, *, last: bool) -> None:
        """Prefill queues a chunk."""
        self.recorder.transfer_queued(
            leg, pages=pages.data, chunk_page=first, chunk_tokens=tokens, sender_pages=total, last=last
        )

    def concluded(self, leg: Leg, side: str, *, landed: bool) -> None:
        """The transfer is over, as prefill says or decode is told."""
        peer = 0 if side == "receive" else None
        failure = "none" if landed else "aborted"
        self.recorder.transfer_concluded(leg, side=side, landed=landed, peer_rank=peer, failure=failure)

    def refused(self, leg: Leg) -> None:
        """Decode does not take the transfer."""
        self.recorder.transfer_refused(leg)

    def committed(self, leg: Leg, prompt: int) -> None:
        """Decode takes the transfer for complete."""
        self.recorder.transfer_committed(leg, prompt_tokens=prompt)

    def read(self, leg: Leg, phase: str, tokens: int, row: int) -> None:
        """A decode step attends over token positions [0, tokens)."""
        self.recorder.read(leg, phase=phase, tokens=tokens, row=row, row_generation=1)

    def released(self, leg: Leg, mode: str, pages: Pages, prefix: int, start: int, end: int) -> None:
        """The leg gives its pages up; its own forwards wrote [start, end)."""
        self.recorder.release(
            leg,
            mode=mode,
            pages=pages.data,
            complete=True,
            prefix_tokens=prefix,
            written_start=start,
            written_end=end,
        )

    def answered(self, leg: Leg, finish: str, prompt: int, output: int, status: int | None = None) -> None:
        """The answer goes out; of an abort with a status, nothing but the status does."""
        delivered = output if status is None else 0
        self.recorder.response(
            leg, finish=finish, input_tokens=prompt, output_tokens=output, delivered=delivered, status=status
        )

    def ended(
        self, leg: Leg, state: str, pages: int = _NO_TRANSFER, tokens: int = _NO_TRANSFER, job: Job | None = None
    ) -> None:
        """The leg's last fact, with what it queued; a decode leg names its destination (`job`)."""
        destination = job.destination or None if job is not None else None
        self.recorder.end(leg, state=state, queued_pages=pages, queued_tokens=tokens, destination=destination)

    def loaded(self, leg: Leg, tokens: int) -> None:
        """A leg that was put aside gets its KV back from host memory."""
        self.recorder.share(leg, operation="load", tokens=tokens, key_composition=b"request", storage="host")
        self.recorder.write(leg, purpose="load", start=0, end=tokens)

    def stored(self, leg: Leg, tokens: int) -> None:
        """The KV of a leg that is put aside goes to host memory."""
        self.recorder.share(leg, operation="store", tokens=tokens, key_composition=b"request", storage="host")

    def _admission(
        self, job: Job, leg: Leg, state: str, reason: str, status: int | None, resumes: bytes | None
    ) -> None:
        self.recorder.admission(
            leg,
            state=state,
            reason=reason,
            need_tokens=job.prompt,
            input_limit=self._limit,
            context_tokens=self._context,
            room=job.room_digest,
            rid=job.rid_digest,
            status=status,
            resumes=resumes,
            namespace=self._namespace(job) if self._cache else None,
        )

    @staticmethod
    def _namespace(job: Job) -> bytes:
        return job.namespace
