"""Whatever a tenant's list is asked for and printed as, nothing of any other tenant is in it.

Every other tenant's names, pseudonyms, ids, request digests, pages, nodes and times are looked for in what the command
prints, in every form, for both roles; the question goes through the API to a store with them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest

from collector.store import Handle
from engine_hooks.identity import EvidenceKey
from notify import cli
from notify.answers import StatusAnswer
from notify.api.app import create_api
from notify.desk import TenantDesk
from notify.ids import WantedId
from notify.incidents.incident_desk import IncidentDesk
from notify.names import TenantNames
from notify.operator_store import OperatorStore
from notify.operator_view import OperatorView
from tests.notify.incident_fixtures import day, make_desk
from tests.support.stores import fresh_store
from tests.support.verdicts import EVIDENCE_KEY, KEYS, START, VerdictBook

TOKEN = "t" * 43
TENANTS = ("acme", "orion", "zenith", "lab")
FORMS = ("table", "json", "csv", "ndjson")


@dataclass
class Known:
    """What is known of one tenant, as text that an answer could hold."""

    secrets: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def handle() -> Iterator[Handle]:
    """A store of this module's: its questions change nothing."""
    with fresh_store() as store:
        yield store.handle()


@pytest.fixture(scope="module")
def incidents(handle: Handle, tmp_path_factory: pytest.TempPathFactory) -> IncidentDesk:
    return make_desk(handle, tmp_path_factory.mktemp("names"))


@pytest.fixture(scope="module")
def world(handle: Handle) -> dict[str, Known]:
    """Each tenant read KV of the next and has an unknown response, on a node, on pages and at times of its own."""
    book = VerdictBook(handle)
    known = {name: Known() for name in TENANTS}
    mine: dict[str, str] = {}
    with book.together():
        for place, name in enumerate(TENANTS):
            donor = TENANTS[(place + 1) % len(TENANTS)]
            emitter, page = f"{name[::-1]}-host/decode-4100{place}-tp0", 7_310_000 + place
            at = START + timedelta(minutes=7 * place + 3, seconds=11 + place, milliseconds=137 + place)
            rid = f"chatcmpl-{place}"
            fields: dict[str, Any] = {"emitter": emitter, "rid": rid, "rules": ["read_unwritten_page"]}
            origin = f"{donor[::-1]}-source"
            source = book.response(donor, started=at - timedelta(minutes=2), emitter=f"{origin}/decode-1-tp0")
            reader = book.response(
                name, verdict="violation", scope="cross_tenant", donor_tenants=1, foreign_slots=16, started=at, **fields
            )
            book.foreign_range(reader, donor=source, donor_tenant=donor, page=page)
            book.finding(reader, name)
            unsure = book.response(
                name, verdict="unknown", reasons=["peer_not_seen"], started=at + timedelta(minutes=1)
            )
            mine |= {reader: name, unsure: name}
            known[name].secrets |= {name, *(book.identity(name, key)[0] for key in KEYS), emitter, str(page)}
            known[name].secrets |= {EvidenceKey(EVIDENCE_KEY).rid(rid).hex()}
            known[donor].secrets |= {source, origin}
    for row in handle.rows("SELECT * FROM response_versions WHERE response_uid IN {u:Array(String)}", {"u": [*mine]}):
        secrets = known[mine[row["response_uid"]]].secrets
        secrets |= {row["response_uid"], row["prefill_uid"]}
        secrets |= {moment.strftime("%H:%M:%S") for moment in (row["started"], row["ended"])}
    book.state()
    return known


@pytest.fixture
def notify(
    handle: Handle, incidents: IncidentDesk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """The command, over the API of this process."""
    names = TenantNames(None, KEYS)
    tenants = TenantDesk(handle, KEYS, [EVIDENCE_KEY])

    def status() -> StatusAnswer:
        raise NotImplementedError

    def wanted(text: str) -> WantedId:
        return WantedId.of(text, [EVIDENCE_KEY])

    view = OperatorView(OperatorStore(handle), names)
    app = create_api(tenants, view, incidents, status, wanted, TOKEN)

    async def ask(path: str, params: dict[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
            return await client.get(path, params=params, headers={"Authorization": f"Bearer {TOKEN}"})

    class InProcess:
        def __enter__(self) -> InProcess:
            return self

        def __exit__(self, *_error: object) -> None:
            return

        def get(self, path: str, **params: str | None) -> Any:
            asked = {name.rstrip("_"): value for name, value in params.items() if value is not None}
            answer = asyncio.run(ask(f"/v1/{path}", asked))
            assert answer.status_code == 200, answer.text
            return answer.json()

    monkeypatch.setattr(cli, "connect", lambda *_where: InProcess())

    def run(*arguments: str) -> str:
        monkeypatch.setenv("COLUMNS", "200")
        cli.main(arguments)
        out, err = capsys.readouterr()
        return out + err

    return run


@pytest.fixture(scope="module")
def defined(world: dict[str, Known], handle: Handle, incidents: IncidentDesk) -> IncidentDesk:
    """An incident whose definition names others too."""
    everyones = [row["emitter"] for row in handle.rows("SELECT DISTINCT emitter FROM response_versions")]
    others = [one for one in everyones if "source" in one]
    incidents.define("about", day(exclude_tenants=["lab"], exclude_nodes=others, note="orion and zenith, page 7310001"))
    return incidents


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tenant", ["acme", "orion", "zenith"])
@pytest.mark.parametrize("role", ["recipient", "donor"])
def test_nothing_of_another_tenant_is_printed(
    world: dict[str, Known], defined: IncidentDesk, notify: Callable[..., str], role: str, tenant: str, form: str
) -> None:
    extra = ["--include", "unknown"] if role == "recipient" else []
    shown = notify("affected", "--tenant", tenant, "--role", role, "--incident", "about", "-o", form, *extra)
    own = world[tenant].secrets
    others = set().union(*(known.secrets for name, known in world.items() if name != tenant)) - own
    assert len(others) > 30
    assert not {secret for secret in others if secret in shown}


@pytest.mark.parametrize("form", FORMS)
def test_the_search_would_find_what_is_there(
    world: dict[str, Known], defined: IncidentDesk, notify: Callable[..., str], form: str
) -> None:
    """The tenant's own response and its time are printed: the search looks at the right text."""
    shown = notify("affected", "--tenant", "acme", "--incident", "about", "-o", form)
    found = {secret for secret in world["acme"].secrets if secret in shown or secret[:12] in shown}
    assert any(len(secret) == 32 for secret in found)
    assert any(len(secret) == 8 and secret.count(":") == 2 for secret in found)


def test_the_incident_wide_answer_is_the_operators_and_has_them_all(
    defined: IncidentDesk,
) -> None:
    answer = defined.affected("about")
    assert answer.view == "operator"
    assert {one.tenant.name for one in answer.by_tenant} >= {"acme", "orion", "zenith"}
