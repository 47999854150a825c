"""The plugin's parts over a real ring, and the stand-in engine's way of calling them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine_hooks.facts import Fact
from engine_hooks.identity import Key
from engine_hooks.recorder import Recorder
from engine_hooks.ring import Ring
from engine_hooks.ring_reader import RingReader
from engine_hooks.sglang_plugin.parts import Parts, build
from tests.engine_hooks.support import facts_in
from tests.support import fake_sglang as fake

EVIDENCE = Key("ev-1", bytes(range(32)))
MAC = Key("mac-1", bytes(range(1, 33)))
NODE_BOOT = bytes(range(100, 116))


class Rig:
    """One scheduler process without an engine: parts that record, and the calls that an engine would make."""

    def __init__(
        self,
        folder: Path,
        *,
        role: str = "decode",
        node_boot: bytes = NODE_BOOT,
        records: bool = True,
        tier: str = "control",
    ) -> None:
        self.ring = Ring.create(folder / "rings", f"host1/{role}", capacity=1 << 20, lanes=2)
        self.parts: Parts = build(EVIDENCE, (MAC,), node_boot, lambda name: Recorder(self.ring), tier)
        self.legs = self.parts.legs
        if records:
            self.legs.recorder = Recorder(self.ring)
        self.legs.limits.role = role
        self.legs.limits.input_limit = 100
        self.legs.limits.context_tokens = 200
        self.legs.limits.page_size = fake.PAGE
        self.scheduler = fake.scheduler()
        self.manager = fake.Manager()
        self.cache = fake.Cache()
        self.buffers = fake.MetadataBuffers()
        self.queue: list[fake.Req] = []  # requests that the engine holds on to; the hooks hold none

    def on_device(self, *, shares: bool = False, fails: bool = False) -> fake.Device:
        """From now on the pool's tables are on a device, whose copies arrive when the test says so."""
        device = fake.Device(fails=fails)
        self.parts.copies._start = device.start
        self.cache = fake.Cache(shares=shares, device="cuda")
        return device

    def __getattr__(self, part: str) -> Any:
        try:
            return self.parts.handlers[part]
        except KeyError:
            raise AttributeError(part) from None

    # ------------------------------------------------------------------ what the engine does

    def arrive(self, req: fake.Req, tokens: int | None = None) -> fake.Req:
        ids = [7] * (len(req.origin_input_ids) if tokens is None else tokens)
        message = SimpleNamespace(rid=req.rid, input_ids=ids, cache_salt=req.cache_salt)
        self.admission.before_handle(self.scheduler, message)
        return req

    def admit(self, req: fake.Req, **given: Any) -> fake.Req:
        self.arrive(req)
        self.admission.after_add(None, self.scheduler, req, **given)
        return req

    def reject(self, req: fake.Req, message: str = "Input length (10 tokens) exceeds", status: int = 400) -> None:
        self.admission.before_abort(req, message, status)
        req.origin_input_ids = [0]

    def reserve(self, req: fake.Req, *ids: int, prefix: int = 0, **given: Any) -> fake.Receiver:
        receiver = fake.Receiver(self.manager, req.bootstrap_room)
        made = SimpleNamespace(req=req, kv_receiver=receiver)
        self.transfer.after_create_receiver(made, None, req, **given)
        req.kv = fake.Kv(1, len(req.origin_input_ids), len(req.origin_input_ids))
        self.transfer.before_send_metadata(receiver, fake.pages(*ids), 2, None, decode_prefix_len=prefix)
        return receiver

    def commit(self, req: fake.Req, *, accepted: bool = True, slot_room: int | None = None) -> None:
        """Decode takes the transfer, or not; the slot names the request's own room or another."""
        decode_req = SimpleNamespace(req=req, metadata_buffer_index=req.metadata_buffer_index)
        queue = SimpleNamespace(metadata_buffers=self.buffers)
        own = req.bootstrap_room if isinstance(req.bootstrap_room, int) else 0
        self.buffers.fill(req.metadata_buffer_index, own if slot_room is None else slot_room)
        self.transfer.before_commit(queue, decode_req)
        if accepted:
            req.output_ids.append(1)
        self.transfer.after_commit(None, queue, decode_req)

    def step(self, *reqs: fake.Req) -> None:
        for req in reqs:
            req.kv.kv_allocated_len += 1
            req.kv.kv_committed_len += 1
        self.steps.after_run_batch(
            None, self.scheduler, fake.decode_batch(*((req, req.kv.kv_committed_len) for req in reqs))
        )
        for req in reqs:
            req.output_ids.append(1)

    def extend(self, req: fake.Req, start: int, end: int) -> None:
        req.kv = fake.Kv(1, end, end)
        self.steps.after_run_batch(None, self.scheduler, fake.extend_batch((req, start, end)))

    def bootstrap(self, req: fake.Req, *infos: Any) -> fake.Sender:
        sender = fake.Sender(self.manager, req.bootstrap_room, num_kv_indices=3)
        req.disagg_kv_sender = sender
        self.manager.request_status[req.bootstrap_room] = 2
        self.manager.transfer_infos[req.bootstrap_room] = {
            f"{fake.SESSION}-{place}": info for place, info in enumerate(infos)
        }
        self.transfer.after_finalize_bootstrap(True, None, req)
        return sender

    def send(
        self,
        sender: fake.Sender,
        ids: Any,
        tokens: int,
        *,
        keep: slice | None = None,
        where: Any = None,
        state: Any = None,
        last: bool = False,
        **given: Any,
    ) -> None:
        """`send` of the engine: note the whole chunk, keep this rank's part of it, put that into the queue."""
        self.transfer.before_send(sender, ids, state, tokens, **given)
        start = sender.curr_idx
        sender.curr_idx += len(ids)
        kept = ids if keep is None else ids[keep]
        place = slice(start, start + len(ids)) if where is None else where
        self.transfer.after_prepare_send((kept, place, last, False), sender, ids, state)
        self.transfer.after_record_indices(None, sender, kept, state)

    def release(self, req: fake.Req) -> None:
        self.parts.handlers["release"].before_release(req, self.cache)
        req.kv = fake.Kv()

    def stream(self, *reqs: fake.Req, **given: Any) -> None:
        self.response.before_stream(None, list(reqs), False, **given)

    def finish(self, req: fake.Req, reason: Any = None) -> None:
        """The end of an answer as decode does it: release first, then the output stream."""
        req.finished_reason = reason or fake.FINISH_LENGTH()
        self.release(req)
        self.stream(req)

    def stream_abort(self, req: fake.Req, message: str = "Aborted", status: int | None = None) -> None:
        req.finished_reason = fake.FINISH_ABORT(message, status)
        self.stream(req)

    # ------------------------------------------------------------------ what was recorded

    @property
    def facts(self) -> list[Fact]:
        return facts_in(self.ring)

    def story(self, req: fake.Req | None = None) -> list[str]:
        """Facts as words (`transfer:reserved`), of the legs of one request or of all."""
        facts = [fact for fact in self.facts if fact.leg is not None]
        if req is not None:
            digest = self.legs.evidence.rid(req.rid)
            uids = {fact.leg.uid for fact in facts if fact.leg and fact.values.get("pagewitness.rid") == digest}
            facts = [fact for fact in facts if fact.leg and fact.leg.uid in uids]
        return [word_of(fact) for fact in facts]

    def leg(self, req: fake.Req) -> list[Fact]:
        """The facts of the only leg of a request."""
        digest = self.legs.evidence.rid(req.rid)
        facts = [fact for fact in self.facts if fact.leg is not None]
        (uid,) = {fact.leg.uid for fact in facts if fact.leg and fact.values.get("pagewitness.rid") == digest}
        return [fact for fact in facts if fact.leg and fact.leg.uid == uid]

    def only(self, word: str) -> dict[str, Any]:
        """The values of the one fact that goes by this word."""
        (found,) = [fact for fact in self.facts if word_of(fact) == word]
        return {name.removeprefix("pagewitness."): value for name, value in found.values.items()}

    def every(self, word: str) -> list[dict[str, Any]]:
        found = [fact for fact in self.facts if word_of(fact) == word]
        return [{name.removeprefix("pagewitness."): value for name, value in fact.values.items()} for fact in found]

    def complete(self) -> bool:
        """Whether every leg has the ordinals 1..n, and an end fact, its last, that says n."""
        legs: dict[bytes, list[Fact]] = {}
        for fact in self.facts:
            if fact.leg is not None:
                legs.setdefault(fact.leg.uid, []).append(fact)
        return all(
            [fact.leg.ordinal for fact in facts if fact.leg] == list(range(1, len(facts) + 1))
            and facts[-1].values.get("pagewitness.leg.facts") == len(facts)
            for facts in legs.values()
        )


def hook_errors(rig: Rig) -> int:
    """How many failures and gaps the ring counts."""
    reader = RingReader.open(rig.ring.path)
    try:
        return reader.hook_errors
    finally:
        reader.close()


def word_of(fact: Fact) -> str:
    name = fact.span.name.removeprefix("pagewitness.").removeprefix("request.").removeprefix("page.")
    variant = fact.values.get(fact.span.variant.name) if fact.span.variant else None
    return f"{name}:{variant}" if isinstance(variant, str) else name
