"""The service as a process: it starts, takes evidence, judges, answers, and ends, whatever stands in its way."""

from __future__ import annotations

import json
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from engine_hooks.identity import pseudonym
from lab.service import ServiceProcess, environment
from notify.errors import UsageError
from notify.service.serve import serve
from notify.service.service_file import NAME, ServiceFile
from notify.settings import load_settings
from tests.support.otlp import export
from tests.support.toy_pair import Ask, ToyPair
from tests.support.verdicts import KEYS

OLD = KEYS[1]
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("service") / "data", detect_every=0.1) as running:
        yield running


def started(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A service that is expected to end by itself."""
    command = [sys.executable, "-m", "pagewitness", "serve", "--data-dir", str(data_dir), *arguments]
    return subprocess.run(command, env=environment({}), capture_output=True, text=True, check=False, timeout=60)


def test_a_running_service_is_found_by_its_file_which_only_its_owner_reads(service: ServiceProcess) -> None:
    path = service.data_dir / NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(json.loads(path.read_text())) == {"url", "pid", "token"}


def test_health_needs_no_token_and_says_how_detection_fares(service: ServiceProcess) -> None:
    url = service.file.url
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
    ready = httpx.get(f"{url}/readyz")
    assert (ready.status_code, ready.json()["detection"]["failures"]) == (200, 0)


@pytest.mark.parametrize(
    "path", ["affected?tenant=acme", "status", "tenants", "operator/pairs", "responses/" + "0" * 32, "x"]
)
@pytest.mark.parametrize("token", [None, "", "Bearer", "Bearer wrong", "Basic dDp0"])
def test_nothing_is_answered_without_the_token(service: ServiceProcess, path: str, token: str | None) -> None:
    headers = {"Authorization": token} if token is not None else {}
    answer = httpx.get(f"{service.file.url}/api/v1/{path}", headers=headers)
    if path == "x":
        assert answer.status_code == 404
        return
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_an_emitters_token_answers_no_question(service: ServiceProcess) -> None:
    headers = {"Authorization": f"Bearer {service.mint('host1')}"}
    assert httpx.get(f"{service.file.url}/api/v1/status", headers=headers).status_code == 401


def test_the_responder_token_posts_no_evidence(service: ServiceProcess) -> None:
    assert service.post(export(), service.file.token, PROTOBUF).status_code == 401


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("affected?tenant=acme", 404, "unknown tenant"),
        ("affected", 400, "tenant"),
        ("affected?tenant=acme&role=x", 400, "role"),
        ("affected?tenant=acme&from=x", 400, "not a time"),
        ("affected?tenant=acme&scope=x", 400, "unknown scope"),
        ("responses/" + "0" * 32, 404, "no response"),
    ],
)
def test_a_bad_question_is_a_problem_document(service: ServiceProcess, query: str, status: int, said: str) -> None:
    headers = {"Authorization": f"Bearer {service.file.token}"}
    answer = httpx.get(f"{service.file.url}/api/v1/{query}", headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert said in problem["detail"]


def test_a_second_service_on_the_same_directory_says_who_holds_it(service: ServiceProcess) -> None:
    before = service.file
    done = started(service.data_dir, "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"process {before.pid}" in done.stderr
    assert "Traceback" not in done.stderr
    assert ServiceFile.read(service.data_dir) == before


def test_a_port_that_is_taken_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = started(tmp_path / "data", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data" / NAME).exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("PAGEWITNESS_PSEUDONYM_KEYS", "PAGEWITNESS_PSEUDONYM_KEYS"),
        ("PAGEWITNESS_EVIDENCE_KEY", "PAGEWITNESS_EVIDENCE_KEY"),
        ("PAGEWITNESS_TOKEN", "PAGEWITNESS_TOKEN needs at least 32 characters"),
        ("PAGEWITNESS_PORT", "PAGEWITNESS_PORT"),
        ("PAGEWITNESS_DETECT_EVERY", "PAGEWITNESS_DETECT_EVERY"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, said: str
) -> None:
    monkeypatch.setenv("PAGEWITNESS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv(name, "feedface")
    with pytest.raises(UsageError) as raised:
        serve(load_settings())
    assert said in str(raised.value)
    assert "feedface" not in str(raised.value)
    assert not (tmp_path / "data").exists()


def test_a_signal_of_the_keyboard_ends_it_cleanly(tmp_path: Path) -> None:
    running = ServiceProcess(tmp_path / "data")
    running.start()
    assert running.stop(signal.SIGINT) == 0
    assert not (tmp_path / "data" / NAME).exists()
    assert "Traceback" not in running.tail(100)


def test_told_to_stop_it_still_takes_what_is_under_way_and_ends_cleanly(tmp_path: Path) -> None:
    """A slow sender has sent half its request; the service ends after the whole of it was stored."""
    running = ServiceProcess(tmp_path / "data", detect_every=0.1)
    running.start()
    token, body = running.mint("toy"), export(*story("drain").facts)
    address = running.file.url.removeprefix("http://").split(":")
    codes: list[int] = []
    with socket.create_connection((address[0], int(address[1]))) as sender:
        head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/x-protobuf\r\nContent-Length: {len(body)}\r\n\r\n"
        sender.sendall(head.encode() + body[:100])
        time.sleep(0.3)
        stopping = threading.Thread(target=lambda: codes.append(running.stop()))
        stopping.start()
        time.sleep(0.3)
        sender.sendall(body[100:])
        assert sender.recv(100).startswith(b"HTTP/1.1 200")
    stopping.join()
    assert codes == [0]
    assert not (tmp_path / "data" / NAME).exists()
    assert "Traceback" not in running.tail(100)
    with ServiceProcess(tmp_path / "data", detect_every=0.1) as again:
        assert again.status().facts == len(story("drain").facts)


def test_after_a_crash_it_starts_again_and_still_knows(tmp_path: Path) -> None:
    facts = story("crash").facts
    running = ServiceProcess(tmp_path / "data", detect_every=0.1)
    running.start()
    assert running.post(export(*facts), running.mint("toy"), PROTOBUF).status_code == 200
    running.stop(signal.SIGKILL)
    assert (tmp_path / "data" / NAME).exists()
    with ServiceProcess(tmp_path / "data", detect_every=0.1) as again:
        assert again.status().facts == len(facts)


def story(tag: str) -> ToyPair:
    """acme warms the pool; an oversized prompt of zenith then reads what acme left."""
    pair = ToyPair(tag)
    acme, zenith = (pseudonym(OLD, name) for name in ("acme", "zenith"))
    pair.run(
        [*(Ask(f"warm{i}", acme, 40, 4) for i in range(3)), Ask("big", zenith, 56, 4)], random.Random(0), at_once=1
    )
    pair.close()
    return pair


def test_evidence_that_is_posted_is_judged_by_itself_and_answered_for_both_sides(tmp_path: Path) -> None:
    pair = story("live")
    settings = {"PAGEWITNESS_PSEUDONYM_KEYS": f"{OLD.id}:{OLD.secret.hex()}", "PAGEWITNESS_TOKEN": "my-own-token-" * 3}
    with ServiceProcess(tmp_path / "data", detect_every=0.1, settings=settings) as running:
        assert running.file.token == settings["PAGEWITNESS_TOKEN"]
        assert running.post(export(*pair.facts), running.mint("toy"), PROTOBUF).status_code == 200
        deadline = time.monotonic() + 30
        while (status := running.status()).unjudged or status.counts.clean < 3:
            assert time.monotonic() < deadline, status
            time.sleep(0.1)
        assert (status.counts.violation, status.detection.failures) == (1, 0)
        recipient = json.loads(running.notify("affected", "--tenant", "zenith", "-o", "json").stdout)
        donor = json.loads(running.notify("affected", "--tenant", "acme", "--role", "donor", "-o", "json").stdout)
        spared = running.notify("affected", "--tenant", "acme")
    assert [row["response_id"] for row in recipient["responses"]] == [pair.uids["big"]]
    owners = {owner for owner in pair.truth["big"].foreign.values() if owner}
    assert {row["response_id"] for row in donor["responses"]} == {pair.uids[owner] for owner in owners}
    assert spared.returncode == 0


def test_a_process_that_may_not_use_the_directory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = started(tmp_path / "file" / "data")
    assert done.returncode == 1
    assert "cannot use the data directory" in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
