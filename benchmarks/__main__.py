"""Runs every benchmark, or those named, and writes docs/performance.md.

    python -m benchmarks [NAME ...]

With names, nothing is written: the tables go to stdout only. Messages go to stderr; the last line of stdout is one
JSON object with every figure. What needs the real engine runs only by name, or by its own target of make; its section
stays on the page as it was.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

import benchmarks
from benchmarks.machine import describe_machine
from benchmarks.report import Section, keeping, page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
DRIVER = {"__main__", "machine", "notify_store", "report"}
ON_ENGINE = {"overhead"}


def names() -> list[str]:
    """The benchmarks there are, by module name."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in DRIVER)


def measure(name: str) -> Section:
    """Run one benchmark."""
    print(f"== {name}", file=sys.stderr)
    module = importlib.import_module(f"benchmarks.{name}")
    rows = module.run()
    text = (module.__doc__ or "").strip()
    if name in ON_ENGINE:
        machine = describe_machine()
        text += f"\n\nMeasured on {machine['date']}, with a load of {machine['load at the end']} at the end."
    return Section(
        name=name,
        title=module.TITLE,
        text=text,
        rows=rows,
        goals=getattr(module, "GOALS", {}),
    )


def _titles(of: set[str]) -> list[str]:
    return [importlib.import_module(f"benchmarks.{name}").TITLE for name in sorted(of)]


def main(arguments: list[str]) -> int:
    """Exit status: 0, or 2 for a name that is no benchmark."""
    unknown = sorted(set(arguments) - set(names()))
    if unknown:
        print(f"no benchmark is named {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    sections = [measure(name) for name in arguments or names() if arguments or name not in ON_ENGINE]
    written = page(sections, describe_machine())
    if arguments:
        print(written)
    else:
        PAGE.write_text(keeping(written, PAGE.read_text(encoding="utf-8"), _titles(ON_ENGINE)), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}", file=sys.stderr)
    print(json.dumps({section.name: section.rows for section in sections}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
