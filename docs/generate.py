"""Makes the pages that only repeat what the code says, so that they cannot say anything else.

    python docs/generate.py

rewrites them. A test compares each with what this module makes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent))

from docs.evidence import evidence_page  # noqa: E402
from docs.exit_codes import exit_codes_page  # noqa: E402
from docs.settings import settings_page  # noqa: E402

PAGES: dict[str, Callable[[], str]] = {
    "evidence.md": evidence_page,
    "exit-codes.md": exit_codes_page,
    "settings.md": settings_page,
}
"""Name of each page, and what makes its text."""


def main() -> None:
    """Write every page that differs, and say which."""
    for name, make in PAGES.items():
        page = FOLDER / name
        text = make()
        if page.exists() and page.read_text(encoding="utf-8") == text:
            print(f"docs/{name}: as the code says", file=sys.stderr)
        else:
            page.write_text(text, encoding="utf-8")
            print(f"docs/{name}: rewritten", file=sys.stderr)


if __name__ == "__main__":
    main()
