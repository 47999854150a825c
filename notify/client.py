"""Asks the running service: finds it, shows the responder token, and turns what goes wrong into a sentence."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from notify.errors import CommandError, UsageError
from notify.service.service_file import ServiceFile, is_alive
from notify.settings import Settings

TIMEOUT = httpx.Timeout(120.0, connect=5.0)
"""A question over a long window may take a while to answer; a service that does not even listen should show at once."""

LONGEST_VALUE = 2048
"""Characters of one value in a question, a tenant's name above all."""


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is, and the token it takes. `hint` says what to do when nobody answers there."""

    url: str
    token: str
    hint: str


def find_service(settings: Settings) -> Service:
    """The service that the settings name, else the one that runs on the data directory. Raises CommandError."""
    start = f"start one with `pagewitness serve --data-dir {settings.data_dir}`"
    if settings.url:
        if not _is_url(settings.url):
            raise UsageError("PAGEWITNESS_URL (--url) must be a URL such as http://127.0.0.1:4318")
        token = _token(settings)
        if not token:
            raise UsageError("PAGEWITNESS_URL (--url) is set and PAGEWITNESS_TOKEN (--token) is not: both are needed")
        return Service(settings.url.rstrip("/"), token, "check PAGEWITNESS_URL (--url), and that the service runs")
    file = ServiceFile.read(settings.data_dir)
    if file is None:
        raise CommandError(f"no pagewitness service: {start}, or set PAGEWITNESS_URL and PAGEWITNESS_TOKEN")
    if not is_alive(file.pid):
        raise CommandError(
            f"no pagewitness service: the last one on {settings.data_dir} (pid {file.pid}) has ended; {start}"
        )
    return Service(file.url, _token(settings) or file.token, start)


def _is_url(text: str) -> bool:
    """Whether this is an address that a request can be sent to: a host name is put into the IDNA encoding for that."""
    try:
        parts = urlsplit(text)
        httpx.URL(text).raw_host.decode("ascii").encode("idna")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (httpx.InvalidURL, ValueError):  # UnicodeError is a ValueError
        return False


def _token(settings: Settings) -> str:
    """The token that the settings name, or ''. Raises UsageError for one that no header can hold; never shows it."""
    token = settings.token.get_secret_value() if settings.token else ""
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise UsageError("PAGEWITNESS_TOKEN (--token) must be printable ASCII, with no blank at its ends")
    return token


class Client:
    """One connection to one service. A context manager."""

    def __init__(self, service: Service) -> None:
        self._service = service
        host = urlsplit(service.url).hostname or ""
        # A proxy is for the way out, and never for this machine.
        self._http = httpx.Client(
            base_url=service.url,
            headers={"Authorization": f"Bearer {service.token}"},
            timeout=TIMEOUT,
            trust_env=not _is_loopback(host),
            verify=urlsplit(service.url).scheme == "https",  # nothing to verify otherwise, and certificates load slowly
            follow_redirects=False,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._http.close()

    def get(self, path: str, **params: str | None) -> Any:
        """The decoded answer at `/api/v1/<path>`; parameters that are None are left out.

        Raises CommandError for what is wrong with the service or the token, UsageError for a question that it refuses
        and for things that it does not know.
        """
        asked = {name.rstrip("_"): _sendable(value) for name, value in params.items() if value is not None}
        return self._ask("GET", path, params=asked)

    def post(self, path: str, said: dict[str, Any], **params: str | None) -> Any:
        """The decoded answer to the JSON object `said`; raises what `get` does."""
        asked = {name: _sendable(value) for name, value in params.items() if value is not None}
        for value in said.values():
            for text in value if isinstance(value, list) else [value]:
                _sendable(text)
        return self._ask("POST", path, params=asked, json=said)

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            answer = self._http.request(method, f"/api/v1/{path}", **request)
        except httpx.TransportError as error:
            raise CommandError(
                f"no pagewitness service answers at {self._service.url} ({type(error).__name__}): {self._service.hint}"
            ) from error
        if answer.status_code == httpx.codes.OK:
            return _json(answer, self._service.url)
        raise _error(answer, self._service.url)


def _sendable(value: str) -> str:
    """The value, if it can be a part of a URL. Raises UsageError."""
    if len(value) > LONGEST_VALUE:
        raise UsageError(f"a value of {len(value)} characters is too long: at most {LONGEST_VALUE}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{value!r} is not text in UTF-8") from None
    return value


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _json(answer: httpx.Response, url: str) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        raise CommandError(f"what answers at {url} is not a pagewitness service (it does not speak JSON)") from error


def _error(answer: httpx.Response, url: str) -> CommandError:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return CommandError(f"what answers at {url} is not a pagewitness service (HTTP {answer.status_code})")
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return CommandError(
            f"the service at {url} refused the responder token: give the one of its serve.json in PAGEWITNESS_TOKEN "
            "(--token)"
        )
    if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.BAD_REQUEST):
        return UsageError(detail)
    return CommandError(f"the service at {url} failed with HTTP {answer.status_code}: {detail}")
