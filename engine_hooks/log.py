"""Messages for people: one line each on stderr, in UTC."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _OneLine(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\r", "\\r").replace("\n", "\\n")


def to_stderr(level: int = logging.INFO) -> None:
    """Send the messages of `engine_hooks` to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine(_FORMAT))
    logger = logging.getLogger("engine_hooks")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
