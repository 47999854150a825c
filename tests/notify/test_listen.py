from __future__ import annotations

import socket

import pytest

from notify.errors import CommandError
from notify.service.listen import open_socket, url_of


def test_port_zero_takes_a_free_port_and_the_url_says_which() -> None:
    with open_socket("127.0.0.1", 0) as listening:
        assert url_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_socket_that_listens_on_all_addresses_is_reached_on_this_machine() -> None:
    with open_socket("0.0.0.0", 0) as listening:
        assert url_of(listening).startswith("http://127.0.0.1:")


def test_an_ipv6_address_stands_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with open_socket("::1", 0) as listening:
        assert url_of(listening).startswith("http://[::1]:")


def test_a_port_that_is_taken_says_so_and_what_to_do() -> None:
    with open_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port} on 127.0.0.1 is taken.*--port"):
            open_socket("127.0.0.1", port)


def test_an_address_that_is_not_one_is_named() -> None:
    with pytest.raises(CommandError, match="no such address"):
        open_socket("no-such-host.invalid", 0)
