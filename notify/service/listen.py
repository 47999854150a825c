"""The service's socket, opened before anything else is told about it."""

from __future__ import annotations

import errno
import socket

from notify.errors import CommandError


def open_socket(host: str, port: int) -> socket.socket:
    """A listening TCP socket; port 0 takes a free one. Raises CommandError that says what is in the way."""
    try:
        family, _kind, _proto, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except socket.gaierror as error:
        raise CommandError(f"cannot listen on {host!r}: no such address ({error.strerror})") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"port {port} on {host} is taken by another program: stop that, or choose another port with --port "
                "(0 takes a free one)"
            ) from error
        raise CommandError(f"cannot listen on {host} port {port}: {error.strerror}") from error


def url_of(listening: socket.socket) -> str:
    """The URL at which a program on this machine reaches the socket: an address of its own where it listens on all."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
