"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

GIB = 1024**3
MEASURED_WITH = ("chdb", "clickhouse-connect", "opentelemetry-sdk", "protobuf", "uvicorn")


def describe_machine() -> dict[str, str]:
    """Date (UTC), processor, memory, kernel, Python and the packages that the figures depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores usable",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in MEASURED_WITH),
        "load at the end": f"{os.getloadavg()[0]:.1f}",
    }


def _processor() -> str:
    """The model name that Linux knows, else the architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
