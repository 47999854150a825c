"""Runs every benchmark, or those named, and writes docs/performance.md.

    python -m benchmarks [NAME ...]

With names, nothing is written: the tables go to stdout only. Messages go to stderr; the last line of stdout is one
JSON object with every figure.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

import benchmarks
from benchmarks.machine import describe_machine
from benchmarks.report import Section, page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
DRIVER = {"__main__", "machine", "report"}


def names() -> list[str]:
    """The benchmarks there are, by module name."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in DRIVER)


def measure(name: str) -> Section:
    """Run one benchmark."""
    print(f"== {name}", file=sys.stderr)
    module = importlib.import_module(f"benchmarks.{name}")
    return Section(
        name=name,
        title=module.TITLE,
        text=(module.__doc__ or "").strip(),
        rows=module.run(),
        goals=getattr(module, "GOALS", {}),
    )


def main(arguments: list[str]) -> int:
    """Exit status: 0, or 2 for a name that is no benchmark."""
    unknown = sorted(set(arguments) - set(names()))
    if unknown:
        print(f"no benchmark is named {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    sections = [measure(name) for name in arguments or names()]
    written = page(sections, describe_machine())
    if arguments:
        print(written)
    else:
        PAGE.write_text(written, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}", file=sys.stderr)
    print(json.dumps({section.name: section.rows for section in sections}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
