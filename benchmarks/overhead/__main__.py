"""`make overhead`: measure, write the section of docs/performance.md, print the figures as one line of JSON."""

from __future__ import annotations

import json
import sys

from benchmarks import overhead
from benchmarks.__main__ import PAGE, measure
from benchmarks.report import with_section


def main() -> int:
    """Exit status 0. Raises LabError if the pair cannot be measured; nothing is written then."""
    section = measure("overhead")
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
    print(f"wrote {PAGE.name}", file=sys.stderr)
    print(json.dumps(overhead.figures(section.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
