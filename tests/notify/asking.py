"""`notify` in this process, asking a real service over the scenario `incident`: shared by the tests of its commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.service import ServiceProcess
from notify.cli import main
from tests.support.scenarios import store_scenario
from tests.support.verdicts import EVIDENCE_KEY, KEYS

SETTINGS = {
    "PAGEWITNESS_PSEUDONYM_KEYS": ",".join(f"{key.id}:{key.secret.hex()}" for key in KEYS),
    "PAGEWITNESS_EVIDENCE_KEY": f"{EVIDENCE_KEY.id}:{EVIDENCE_KEY.secret.hex()}",
}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Notify = Callable[..., Done]


@contextmanager
def serving(folder: Path) -> Iterator[ServiceProcess]:
    """The service over the scenario `incident`, with names for all but one of its tenants."""
    names = folder / "tenants.txt"
    names.write_text("acme\nzenith\ncalm\n", encoding="utf-8")
    store_scenario("incident", folder / "data")
    settings = SETTINGS | {"PAGEWITNESS_TENANTS_FILE": str(names)}
    with ServiceProcess(folder / "data", detect_every=600, settings=settings) as running:
        yield running


def asking(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Notify:
    """The command in this process, asking that service."""
    for name in [name for name in os.environ if name.startswith("PAGEWITNESS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PAGEWITNESS_DATA_DIR", str(service.data_dir))

    def run(*arguments: str, columns: int = 80) -> Done:
        monkeypatch.setenv("COLUMNS", str(columns))
        code = main(arguments)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run
