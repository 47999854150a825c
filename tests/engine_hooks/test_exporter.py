"""When to try again, and that nothing is given up but the one span that a working receiver refuses."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from engine_hooks import conventions as c
from engine_hooks.batch import encode_facts
from engine_hooks.exporter import Delivery, Exporter
from engine_hooks.facts import Fact
from engine_hooks.spans import SpanSource
from engine_hooks.transport import Outcome, Transport
from tests.engine_hooks.receiver import Receiver, Reply, Request

SOURCE = SpanSource("host1/decode", bytes(16))


def message(*seqs: int) -> bytes:
    return encode_facts(SOURCE, [Fact(c.EMITTER_STATUS, seq, 1, None, {}) for seq in seqs])


def refuse(*poison: int, status: int = 400) -> Callable[[Request], Reply | None]:
    """Refuse every message that holds one of these facts."""
    return lambda request: Reply(status) if {span.seq for span in request.spans} & set(poison) else None


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def an_exporter(receiver: Receiver, clock: Clock | None = None) -> Exporter:
    return Exporter(Transport(receiver.url), base=1.0, ceiling=8.0, clock=clock or Clock())


def seqs_of(receiver: Receiver) -> list[int]:
    return sorted(span.seq for request in receiver.accepted for span in request.spans)


def test_a_taken_message_is_delivered(receiver: Receiver) -> None:
    assert an_exporter(receiver).deliver(message(1, 2), "host1/decode") == Delivery(Outcome.OK, status=200)
    assert seqs_of(receiver) == [1, 2]


def test_pauses_grow_and_stop_growing_and_vary(receiver: Receiver) -> None:
    clock = Clock()
    receiver.rule = lambda request: Reply(503)
    pauses = []
    for _ in range(2):
        exporter = an_exporter(receiver, clock)
        for _ in range(6):
            exporter.deliver(b"", "host1/decode")
            pauses.append(exporter.wait_seconds)

    for pause, most in zip(pauses, [1, 2, 4, 8, 8, 8] * 2, strict=True):
        assert most / 2 <= pause <= most
    assert pauses[:6] != pauses[6:]


def test_a_longer_pause_that_the_receiver_asks_for_is_kept(receiver: Receiver) -> None:
    receiver.script = [Reply(429, {"Retry-After": "20"})]
    exporter = an_exporter(receiver)

    exporter.deliver(message(1), "host1/decode")

    assert exporter.wait_seconds == 20


def test_an_absurd_pause_is_cut(receiver: Receiver) -> None:
    receiver.script = [Reply(503, {"Retry-After": "999999"})]
    exporter = an_exporter(receiver)

    exporter.deliver(message(1), "host1/decode")

    assert exporter.wait_seconds == 300


def test_success_ends_the_pause_and_the_outage(receiver: Receiver) -> None:
    clock = Clock()
    exporter = an_exporter(receiver, clock)
    receiver.script = [Reply(503), Reply(503)]
    exporter.deliver(b"", "host1/decode")
    clock.now += 5
    exporter.deliver(b"", "host1/decode")
    assert exporter.outage_seconds == 5

    exporter.deliver(b"", "host1/decode")

    assert (exporter.wait_seconds, exporter.outage_seconds) == (0, 0)


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("poison", [1, 6, 11])
def test_the_one_refused_span_is_dropped_and_all_others_arrive(
    status: int, poison: int, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.rule = refuse(poison, status=status)

    delivery = an_exporter(receiver).deliver(message(*range(1, 12)), "host1/decode")

    assert (delivery.outcome, delivery.refused) == (Outcome.OK, 1)
    assert seqs_of(receiver) == [seq for seq in range(1, 12) if seq != poison]
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith(f"host1/decode: dropped one fact that the receiver refuses (HTTP {status})")
    assert f"(seq {poison}," in line


def test_several_refused_spans_are_each_counted(receiver: Receiver) -> None:
    receiver.rule = refuse(2, 3, 9)

    assert an_exporter(receiver).deliver(message(*range(1, 12)), "host1/decode").refused == 3
    assert seqs_of(receiver) == [1, 4, 5, 6, 7, 8, 10, 11]


def test_a_compressed_message_is_taken_apart_too(receiver: Receiver) -> None:
    receiver.rule = refuse(2)

    assert an_exporter(receiver).deliver_compressed(gzip.compress(message(1, 2, 3)), "host1/decode").refused == 1
    assert seqs_of(receiver) == [1, 3]


def test_an_address_that_refuses_even_an_empty_export_gets_nothing_dropped(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.rule = lambda request: Reply(400)

    delivery = an_exporter(receiver).deliver(message(1), "host1/decode")

    assert (delivery.outcome, delivery.refused) == (Outcome.RETRY, 0)
    assert "PAGEWITNESS_EXPORT_URL" in caplog.text


def test_an_outage_in_the_middle_of_taking_apart_drops_nothing_yet(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    # The whole message, an empty one, its first half, the first span, and then an outage.
    receiver.script = [Reply(400), Reply(200), Reply(400), Reply(400), Reply(503)]

    delivery = an_exporter(receiver).deliver(message(1, 2, 3, 4), "host1/decode")

    assert (delivery.outcome, delivery.refused) == (Outcome.RETRY, 0)
    assert "dropped" not in caplog.text


def test_a_denied_emitter_is_said_with_what_to_do_and_pauses_nobody_else(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.script = [Reply(403, body=b"this boot belongs to another token")]
    exporter = an_exporter(receiver)

    delivery = exporter.deliver(message(1), "host1/decode")

    assert (delivery.outcome, delivery.status, exporter.wait_seconds) == (Outcome.DENIED, 403, 0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "this boot belongs to another token" in line
    assert "Mint a token for the prefix 'host1'" in line


def test_a_token_that_nobody_knows_pauses_everything(receiver: Receiver) -> None:
    receiver.script = [Reply(401)]
    exporter = an_exporter(receiver)

    assert exporter.deliver(message(1), "host1/decode").outcome is Outcome.DENIED
    assert exporter.wait_seconds > 0


def test_spans_that_the_receiver_reports_as_not_stored_are_counted(receiver: Receiver) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2
    receiver.script = [Reply(200, body=answer.SerializeToString())]

    assert an_exporter(receiver).deliver(message(1, 2, 3), "host1/decode").refused == 2
