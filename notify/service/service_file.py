"""`serve.json` in the data directory: how a command on the same machine finds the running service and its token."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from notify.errors import CommandError

NAME = "serve.json"


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """Where a service listens, which process it is, and the responder token it takes."""

    url: str
    pid: int
    token: str

    def write(self, data_dir: Path) -> Path:
        """Put it in the data directory, readable by its owner only, whole or not at all."""
        handle, name = tempfile.mkstemp(dir=data_dir, prefix=f".{NAME}.")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
            file.write("\n")
        path = data_dir / NAME
        Path(name).replace(path)
        return path

    @classmethod
    def read(cls, data_dir: Path) -> ServiceFile | None:
        """The file of the running service; None if there is none. Raises CommandError if it cannot be read."""
        path = data_dir / NAME
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            return cls(url=str(said["url"]), pid=int(said["pid"]), token=str(said["token"]))
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise CommandError(
                f"{path} may be read only by whoever started the service: run as that user, or set PAGEWITNESS_URL and "
                "PAGEWITNESS_TOKEN"
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{path} is damaged ({type(error).__name__}): restart `pagewitness serve`") from error

    def remove(self, data_dir: Path) -> None:
        """Take it away, if it still is this service's."""
        try:
            if ServiceFile.read(data_dir) == self:
                (data_dir / NAME).unlink(missing_ok=True)
        except CommandError:
            return  # not ours any more


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs (on this machine)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
