"""With CI=true a skip is a failure, wherever it is said; without it, a skip stays a skip."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SKIPS = {
    "in the test": "import pytest\ndef test_one(): pytest.skip('no namespace')",
    "by a mark": "import pytest\n@pytest.mark.skipif(True, reason='no namespace')\ndef test_one(): pass",
    "in a fixture": "import pytest\n@pytest.fixture\ndef part(): pytest.skip('no namespace')\ndef test_one(part): pass",
    "for the module": "import pytest\npytest.skip('no namespace', allow_module_level=True)\ndef test_one(): pass",
    "by a missing import": "import pytest\npytest.importorskip('no_such_namespace')\ndef test_one(): pass",
}


@pytest.fixture
def inner(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text(encoding="utf-8"))
    return pytester


@pytest.mark.parametrize("where", SKIPS)
def test_in_ci_a_skip_fails(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setenv("CI", "true")
    inner.makepyfile(SKIPS[where])
    result = inner.runpytest()
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    result.stdout.fnmatch_lines(["*was skipped, and with CI=true that is a failure: *namespace*"])


@pytest.mark.parametrize("where", SKIPS)
def test_elsewhere_a_skip_is_a_skip(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.delenv("CI", raising=False)
    inner.makepyfile(SKIPS[where])
    assert inner.runpytest().parseoutcomes() == {"skipped": 1}


def test_an_expected_failure_is_no_skip(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    inner.makepyfile("import pytest\n@pytest.mark.xfail(reason='known')\ndef test_one(): assert False")
    inner.runpytest().assert_outcomes(xfailed=1)
