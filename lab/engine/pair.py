"""Starts and stops a prefill/decode pair of one engine version, in a network namespace of its own."""

from __future__ import annotations

import subprocess
import time
from types import TracebackType

from lab.engine.client import Client
from lab.engine.errors import LabError
from lab.engine.install import require_installed
from lab.engine.namespace import Namespace, listening_ports, remove_stale
from lab.engine.paths import LabPaths
from lab.engine.progress import Say, say_on_stderr
from lab.engine.servers import BOOTSTRAP_PORT, PORTS, PairSettings, RunFolder, command_line, environment

READY_LINE = "fired up and ready"
ROLES = ("prefill", "decode")

# A killed server leaves semaphores and segments in /dev/shm: each gets its own. Its scheduler polls without rest, which
# on a GPU node costs a core of many and here half the machine: it gives way to the agent and the service.
_OWN_SHM = 'mount -t tmpfs none /dev/shm && exec nice -n 10 "$@"'
_POLL_SECONDS = 0.2
_TAIL_LINES = 15


class Pair:
    """One pair. A context manager: up on entry, down on exit, whatever happened between.

    `run` keeps the logs (and rings, and truth files) of the run; it is made if it is not there and never deleted.
    """

    def __init__(
        self,
        settings: PairSettings,
        run: RunFolder,
        paths: LabPaths | None = None,
        *,
        detached: bool = False,
        say: Say = say_on_stderr,
    ) -> None:
        self.settings = settings
        self.run = run
        self.paths = paths or LabPaths.from_environment()
        self.namespace = Namespace.of(self.paths.root, detached=detached)
        self._say = say
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def up(self, timeout_seconds: float = 240.0) -> float:
        """Start both servers and wait until both listen; returns the seconds that took.

        Raises LabError with the end of its log when a server dies, and when they are not up in time; nothing of the
        pair runs then.
        """
        require_installed(self.paths, self.settings.version)
        for name in remove_stale(self.paths.root):
            self._say(f"removed {name}, left by a run that is gone")
        if self.namespace.exists:
            raise LabError(f"a pair is up already in namespace {self.namespace.name}: take it down first")
        self.run.make()
        began = time.monotonic()
        try:
            self.namespace.create()
            for role in ROLES:
                self._servers[role] = self._start(role)
            self._wait(began + timeout_seconds)
        except BaseException:
            self.down()
            raise
        seconds = time.monotonic() - began
        self._say(f"SGLang {self.settings.version}: prefill and decode listen after {seconds:.0f} s")
        return seconds

    def down(self) -> None:
        """End every process of the pair's namespace and remove the namespace. Safe to call twice."""
        self.namespace.remove()
        for server in self._servers.values():
            server.wait()
        self._servers.clear()

    def client(self) -> Client:
        """A client inside the pair's namespace; close it before the pair goes down."""
        return Client(self.namespace)

    def dead_servers(self) -> list[str]:
        """Roles whose server has ended."""
        return [role for role, server in self._servers.items() if server.poll() is not None]

    def __enter__(self) -> Pair:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        command = self.namespace.command("sh", "-c", _OWN_SHM, "sh", *command_line(role, self.settings, self.paths))
        values = environment(role, self.settings, self.paths, self.run, self.namespace.scratch)
        with self.run.log(role).open("wb") as log:
            return subprocess.Popen(
                command,
                env=values,
                cwd=self.namespace.scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, deadline: float) -> None:
        wanted = {*PORTS.values(), BOOTSTRAP_PORT}
        while not (all(map(self._says_ready, ROLES)) and wanted <= listening_ports(self._servers["decode"].pid)):
            for role in self.dead_servers():
                raise LabError(
                    f"the {role} server died while starting; the end of {self.run.log(role)}:\n{self.tail(role)}"
                )
            if time.monotonic() > deadline:
                ends = "\n".join(f"{self.run.log(role)}:\n{self.tail(role)}" for role in ROLES)
                raise LabError(f"the pair did not come up in time; the ends of the logs:\n{ends}")
            time.sleep(_POLL_SECONDS)

    def _says_ready(self, role: str) -> bool:
        return READY_LINE in self.run.log(role).read_text(errors="replace")

    def tail(self, role: str) -> str:
        """The last lines of a server's log, without the one that lists all its arguments."""
        lines = self.run.log(role).read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if "server_args=" not in line][-_TAIL_LINES:])
