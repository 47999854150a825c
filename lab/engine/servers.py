"""Command lines and environments of the two servers of a pair, as data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from lab.engine import install, keys
from lab.engine.paths import HERE, LabPaths

PREFILL_PORT = 31000
DECODE_PORT = 31001
BOOTSTRAP_PORT = 31998
PORTS = {"prefill": PREFILL_PORT, "decode": DECODE_PORT}
HOST = "127.0.0.1"

EMITTER_PREFIX = "lab1"
"""Prefix of the emitters of a lab pair; a token of the receiver is bound to such a prefix."""

TRUTH_DIR_SETTING = "LAB_TRUTH_DIR"
TRUTH_PAUSE_SETTING = "LAB_TRUTH_PAUSE_MS"


_ONE_RETRACTION_BACKUP = frozenset({"0.5.11", "0.5.15"})
"""Versions of the lab that back retracted requests up to the CPU without a choice."""

_RANKS_ENVIRONMENT = {"SGLANG_NCCL_SO_PATH": "/nonexistent/libnccl.so", "TORCHDYNAMO_DISABLE": "1"}
"""What lets several ranks run on a CPU: no library for GPUs is looked for, and nothing is compiled."""


@dataclass(frozen=True, slots=True)
class PairSettings:
    """One prefill/decode pair. Pool and context sizes are in tokens.

    `pause_ms` makes each forward of a role take that much longer; it needs `truth`. `environment` is added to that of
    both servers, `arguments` to both command lines, `role_arguments` to that of one.
    """

    version: str
    prefill_tokens: int = 1024
    decode_tokens: int = 2048
    page_size: int = 16
    context_tokens: int = 4096
    running_requests: int = 8
    waiting_timeout_seconds: int = 5
    model_name: str = "lab-echo"
    hooks: bool = True
    truth: bool = False
    ranks: int = 1
    pause_ms: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    arguments: tuple[str, ...] = ()
    role_arguments: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Files of one run, below `root`."""

    root: Path

    def make(self) -> None:
        """Make the folders that the servers expect."""
        for folder in (self.root, self.rings, self.truth, self.spool):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def rings(self) -> Path:
        """Where the hooks make their rings and the agent finds them."""
        return self.root / "rings"

    @property
    def spool(self) -> Path:
        """What the agent could not post yet."""
        return self.root / "spool"

    @property
    def truth(self) -> Path:
        """Files of the truth plugin."""
        return self.root / "truth"

    def log(self, role: str) -> Path:
        """Output of one server."""
        return self.root / f"{role}.log"


def command_line(role: str, settings: PairSettings, paths: LabPaths) -> list[str]:
    """The command that starts the server of this role."""
    tokens = settings.prefill_tokens if role == "prefill" else settings.decode_tokens
    command = [
        str(paths.python), "-m", "sglang.launch_server",
        "--model-path", str(paths.model), "--served-model-name", settings.model_name, "--dtype", "float32",
        "--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch",
        "--disable-overlap-schedule", "--disable-cuda-graph", "--skip-server-warmup",
        "--host", HOST, "--port", str(PORTS[role]),
        "--page-size", str(settings.page_size), "--context-length", str(settings.context_tokens),
        "--max-total-tokens", str(tokens), "--max-running-requests", str(settings.running_requests),
        "--mem-fraction-static", "0.5",
        "--disaggregation-mode", role, "--disaggregation-transfer-backend", "mooncake",
        "--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT),
    ]  # fmt: skip
    if role == "decode" and settings.version not in _ONE_RETRACTION_BACKUP:
        command += ["--disaggregation-decode-retraction-backup", "cpu_tensor"]
    if settings.ranks > 1:
        command += ["--tp-size", str(settings.ranks), "--disable-custom-all-reduce"]
    return [*command, *settings.arguments, *settings.role_arguments.get(role, ())]


def environment(role: str, settings: PairSettings, paths: LabPaths, run: RunFolder, scratch: Path) -> dict[str, str]:
    """The whole environment of a server: nothing is inherited but PATH.

    `scratch` is for caches and temporary files; sockets among them want a short path.
    """
    values = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(map(str, python_path(settings, paths))),
        "PYTHONUNBUFFERED": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_HOST_IP": HOST,
        "HOST_IP": HOST,
        "SGLANG_LOCAL_IP_NIC": "lo",
        "SGLANG_DISAGGREGATION_WAITING_TIMEOUT": str(settings.waiting_timeout_seconds),
        "MC_FORCE_TCP": "1",
        "MOONCAKE_PROTOCOL": "tcp",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if settings.hooks:
        values |= {
            "PAGEWITNESS_HOOKS": "on",
            "PAGEWITNESS_RING_DIR": str(run.rings),
            "PAGEWITNESS_EMITTER": EMITTER_PREFIX,
            "PAGEWITNESS_MAC_KEYS": keys.MAC_KEY,
            "PAGEWITNESS_EVIDENCE_KEY": keys.EVIDENCE_KEY,
        }
    if settings.truth:
        values[TRUTH_DIR_SETTING] = str(run.truth)
        values[TRUTH_PAUSE_SETTING] = ",".join(f"{name}={pause}" for name, pause in settings.pause_ms.items())
    if settings.ranks > 1:
        values |= _RANKS_ENVIRONMENT | {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(map(str, range(settings.ranks)))}
    return values | dict(settings.environment)


def python_path(settings: PairSettings, paths: LabPaths) -> list[Path]:
    """What the servers can import besides their environment, first wins."""
    folders = [HERE / "standins"]
    if settings.hooks:
        folders.append(paths.hooks)
    if settings.truth:
        folders.append(HERE / "truth_plugin")
    if settings.version != install.MAIN:
        folders.append(paths.overlay(settings.version))
    return folders
