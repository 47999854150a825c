"""What holds for every test: with ``CI=true`` a skipped test is a failed one.

A test that skips because a part is missing (a namespace, a package, a tool) is a courtesy on a laptop. Where the
whole is judged it would be a hole that nobody sees. And no test fails because the machine is slow.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("at_leisure", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("at_leisure")


def _failed_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("CI") != "true":
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} was skipped, and with CI=true that is a failure: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _failed_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _failed_if_skipped(report)
    return report
