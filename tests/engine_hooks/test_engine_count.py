"""The engine's own count of requests: read beside the draining, and given only to the boot that it is of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine_hooks.engine_count import EngineCounts, parse

PAGE = """\
# HELP sglang:num_requests_total Number of requests processed.
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{engine_type="unified",is_streaming="false",model_name="m"} 12.0
sglang:num_requests_total{engine_type="unified",is_streaming="true",model_name="a} b"} 3.0 1790000000000
sglang:num_requests_totals{model_name="m"} 99.0
sglang:num_aborted_requests_total{model_name="m"} 7.0
"""
BOOT, LATER_BOOT = "a0" * 16, "b0" * 16


class Engine:
    """An HTTP server with a page of metrics."""

    def __init__(self) -> None:
        self.page, self.status = PAGE, 200
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = engine.page.encode()
                self.send_response(engine.status if self.path == "/metrics" else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.emitter = f"host1/decode-{self.port}-tp0"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def counts(self, count: int) -> None:
        self.page = f'sglang:num_requests_total{{model_name="m"}} {count}.0\n'

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


class Clock:
    now = 1_000

    def __call__(self) -> int:
        return self.now


def watching(engine: Engine) -> tuple[EngineCounts, Clock]:
    clock = Clock()
    counts = EngineCounts((f"http://127.0.0.1:{engine.port}",), clock)
    counts.requests(engine.emitter, BOOT, 0, alive=True)  # the boot is known from now on
    return counts, clock


def test_the_count_is_the_sum_over_all_labels_of_that_counter_alone() -> None:
    assert parse(PAGE) == 15


@pytest.mark.parametrize("page", ["", "# HELP sglang:num_requests_total x\n", "sglang:num_requests_total{} -1\n"])
def test_a_page_without_a_count_says_so(page: str) -> None:
    with pytest.raises(ValueError, match="num_requests_total"):
        parse(page)


def test_a_count_is_given_out_once_everything_before_it_is_acknowledged(engine: Engine) -> None:
    counts, clock = watching(engine)
    clock.now = 2_000
    counts.read_all()
    assert counts.requests(engine.emitter, BOOT, 1_999, alive=True) is None
    assert counts.requests(engine.emitter, BOOT, 2_000, alive=True) == 15


def test_a_count_from_before_a_boot_was_known_may_be_another_engines(engine: Engine) -> None:
    counts, clock = watching(engine)
    clock.now = 2_000
    counts.read_all()
    clock.now = 3_000
    assert counts.requests(engine.emitter, LATER_BOOT, 9_000, alive=True) is None


def test_a_process_that_has_ended_keeps_the_count_that_was_known(engine: Engine) -> None:
    counts, clock = watching(engine)
    clock.now = 2_000
    counts.read_all()
    assert counts.requests(engine.emitter, BOOT, 2_000, alive=True) == 15
    engine.counts(99)
    clock.now = 3_000
    counts.read_all()
    assert counts.requests(engine.emitter, BOOT, 9_000, alive=False) == 15


def test_a_count_that_fell_is_of_another_life(engine: Engine) -> None:
    counts, clock = watching(engine)
    clock.now = 2_000
    counts.read_all()
    engine.counts(1)
    clock.now = 3_000
    counts.read_all()
    assert counts.requests(engine.emitter, BOOT, 2_500, alive=True) is None


def test_an_engine_that_does_not_answer_has_no_count_any_more(engine: Engine) -> None:
    counts, clock = watching(engine)
    clock.now = 2_000
    counts.read_all()
    engine.status = 500
    counts.read_all()
    assert counts.requests(engine.emitter, BOOT, 9_000, alive=True) is None


@pytest.mark.parametrize(
    "name", ["decode-1-tp0", "decode-{port}-tp1", "decode-{port}-dp0-tp0", "gateway-{port}", "agent"]
)
def test_only_rank_0_of_the_node_at_that_port_is_held_against_it(engine: Engine, name: str) -> None:
    counts, clock = watching(engine)
    emitter = "host1/" + name.format(port=engine.port)
    counts.requests(emitter, BOOT, 0, alive=True)
    clock.now = 2_000
    counts.read_all()
    assert counts.requests(emitter, BOOT, 9_000, alive=True) is None
