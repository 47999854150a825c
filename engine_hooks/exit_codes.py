"""Exit codes of `pagewitness-hooks`; they mean what they mean in every command of pagewitness."""

from __future__ import annotations

OK, ERROR, USAGE, INCOMPLETE = 0, 1, 2, 4
