"""Queries about one tenant. There is no way to ask here without saying whose data may be seen.

A query names only the tables below, each of which is bound to the scope before the query runs; naming any other table
is refused. What a tenant may know of the others is decided here, in the columns that these tables do not have: no
identity, page number or node name of anybody else gets further than this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from detectors.queries import Queries, Row
from engine_hooks.conventions import UNATTRIBUTED
from notify.scope import TenantScope

_MINE = "(tenant_key, {tenant}) IN {{scope:Array(Tuple(String, String))}}"
_DONOR_IS_MINE = "(donor_tenant_key, donor_tenant) IN {scope:Array(Tuple(String, String))}"

_RESPONSES = f"""
        SELECT
            r.tenant_key AS tenant_key, r.response_uid AS response_uid, r.prefill_uid AS prefill_uid, r.rid AS rid,
            r.model AS model, r.traffic AS traffic, r.started AS started, r.ended AS ended, r.verdict AS verdict,
            r.reasons AS reasons, r.clean_for AS clean_for, r.derived AS derived, r.rules AS rules,
            r.tokens_delivered AS tokens_delivered, r.output_tokens AS output_tokens, r.input_tokens AS input_tokens,
            r.http_status AS http_status, r.finish AS finish, r.exposure_rules AS exposure_rules,
            r.foreign_slots AS foreign_slots, r.unattributed_slots AS unattributed_slots,
            r.no_writer_slots AS no_writer_slots, greatest(r.donor_tenants - {{own}}, 0) AS other_tenants,
            multiIf(
                r.scope = '' AND r.verdict = 'violation', '{UNATTRIBUTED}',  -- read, and nobody knows whose it was
                r.scope != 'cross_tenant' OR {{own}} = 0 OR r.donor_tenants > {{own}}, r.scope,
                r.unattributed_slots > 0, '{UNATTRIBUTED}', 'same_tenant') AS scope
        FROM (SELECT * FROM own_asked WHERE (tenant_key, tenant) IN {{{{scope:Array(Tuple(String, String))}}}}) AS r
        {{rotated}}"""

TABLES: dict[str, str] = {
    # Reading what the same tenant wrote under an older key is not another tenant's data: rotating keys must not split
    # a tenant, and only here are all its pseudonyms known.
    "tenant_rotated": f"""
        SELECT response_uid, version, uniqExact(donor_tenant_key, donor_tenant) AS own_donors
        FROM donated_range_versions WHERE scope = 'cross_tenant' AND {_DONOR_IS_MINE} GROUP BY response_uid, version""",
    "tenant_responses": _RESPONSES.format(
        own="o.own_donors",
        rotated="LEFT JOIN tenant_rotated AS o ON o.response_uid = r.response_uid AND o.version = r.version",
    ),
    # To be counted by their signs: a row that no longer stands is here twice, once with each sign.
    "tenant_verdicts": f"""
        SELECT tenant_key, verdict, reasons, started, ended, sign FROM own_asked_signed
        WHERE {_MINE.format(tenant="tenant")}""",
    "tenant_known": f"""
        SELECT tenant_key, sign FROM own_signed WHERE {_MINE.format(tenant="tenant")}""",
    # Whatever an incident leaves out: what a donor is told of its own response has nothing to do with who read it.
    "tenant_own": f"""
        SELECT tenant_key, response_uid, model, started, ended, tokens_delivered FROM own_responses
        WHERE {_MINE.format(tenant="tenant")}""",
    "tenant_findings": f"""
        SELECT * FROM findings WHERE {_MINE.format(tenant="tenant")}""",
    "tenant_ranges": f"""
        SELECT
            DISTINCT response_uid, slot_end - slot_start AS slots, token_start, token_start + slots AS token_end,
            if(f.scope = 'cross_tenant' AND {_DONOR_IS_MINE}, 'same_tenant', f.scope) AS scope, via
        FROM foreign_range_versions AS f
        WHERE (response_uid, version) IN (
            SELECT response_uid, version FROM responses
            WHERE verdict != 'clean' AND {_MINE.format(tenant="tenant")})""",
    # The reader is here only to be counted, and its times only to choose a window by.
    "tenant_exposures": f"""
        SELECT
            f.donor_tenant_key AS tenant_key,
            if(f.donor_response_uid = '', f.donor_uid, f.donor_response_uid) AS own_uid,
            f.donor_response_uid != '' AS own_joined, f.scope AS scope, sipHash128(f.response_uid) AS reader,
            r.started AS started, r.ended AS ended, r.tokens_delivered AS reader_tokens, r.derived AS derived
        FROM (SELECT * FROM donated_range_versions WHERE {_DONOR_IS_MINE}) AS f
        INNER JOIN (
            SELECT response_uid, version, started, ended, tokens_delivered, derived FROM asked_readers
            WHERE NOT ({_MINE.format(tenant="tenant")})
                AND response_uid IN (SELECT response_uid FROM donated_range_versions WHERE {_DONOR_IS_MINE})
        ) AS r ON r.response_uid = f.response_uid AND r.version = f.version""",
    "tenant_evidence": f"""
        SELECT uid, span, time, received_at, tenant_key FROM evidence WHERE {_MINE.format(tenant="tenant_id")}""",
    "tenant_heard": f"""
        SELECT tenant_key, first, last FROM own_heard WHERE {_MINE.format(tenant="tenant")}""",
    # Of everybody: verdicts, with nothing that says whose. A donor's list is as sure as these are.
    "everyone_verdicts": f"""
        SELECT verdict, reasons, scope, unattributed_slots, started, ended, tenant = '{UNATTRIBUTED}' AS nobody, sign
        FROM asked_signed""",
    # The same of requests that nobody vouched for: they may be anybody's.
    "nobodys_verdicts": "SELECT verdict, scope, started, ended, sign FROM nobodys_signed",
    # The store's own: how far detection came, which emitters are heard of, when they recorded, how many requests they
    # finished; nothing of a tenant.
    "detection_state": "",
    "boot_activity": "",
    "boot_words": "",
    "fact_times": "",
    "engine_counts": "",
}
"""Tables that a tenant query may name, as queries over the store's tables."""

_LIVE = {
    "own_responses": "SELECT * FROM responses",
    "own_asked": "SELECT * FROM responses",
    "asked_readers": "SELECT * FROM responses WHERE verdict != 'clean'",
    "own_signed": "SELECT * FROM newest_responses",
    "own_asked_signed": "SELECT * FROM newest_responses",
    "asked_signed": "SELECT * FROM newest_responses",
    "nobodys_signed": f"SELECT * FROM newest_responses WHERE tenant = '{UNATTRIBUTED}'",
    "own_heard": """
        SELECT tenant_key, tenant, min(h.first) AS first, max(h.last) AS last
        FROM tenants_heard AS h GROUP BY tenant_key, tenant""",
}
"""The store's tables as they stand, which the tables above are over: no query may name one. What an incident froze
takes their place."""

_ONE_KEY = {"tenant_responses": _RESPONSES.format(own="0", rotated="")}
"""With one key there was no rotation, and no foreign range needs to be read to see that."""

_REFERENCE = re.compile(r"\b(?:FROM|JOIN)\s+([A-Za-z_][\w.]*)", re.IGNORECASE)
_STORE_TABLE = re.compile(
    r"\b(responses|own_responses|own_asked|asked_readers|\w+_signed|own_heard|tenants_heard|newest_responses"
    r"|newest_findings|findings|foreign_ranges|evidence\w*|facts|nodes|claims|\w+_versions|\w+_revisions"
    r"|request_rollup|system)\b",
    re.IGNORECASE,
)


class ScopeRequiredError(Exception):
    """A query that does not say whose data it may see, or that reaches past it. A fault in the program."""


class TenantStore:
    """Reads the store on behalf of one tenant at a time.

    `frozen` are tables that stand for the store's of the same name, with their parameters: see
    :func:`notify.incidents.frozen.tenant_tables`.
    """

    def __init__(self, handle: Queries, frozen: tuple[Mapping[str, str], Mapping[str, Any]] = (_LIVE, {})) -> None:
        self._handle = handle
        self._base, self._params = frozen

    def rows(self, scope: TenantScope, sql: str, **params: Any) -> list[Row]:
        """Rows of a SELECT over TABLES, with `{name:Type}` parameters.

        Raises ScopeRequiredError without a scope, or where the query names a table of the store itself.
        """
        if not isinstance(scope, TenantScope):
            raise ScopeRequiredError(f"a query about a tenant needs a TenantScope, not {type(scope).__name__}")
        named = set(_REFERENCE.findall(sql))
        strangers = sorted((named - TABLES.keys()) | set(_STORE_TABLE.findall(sql)))
        if strangers or not named:
            allowed, refused = ", ".join(sorted(TABLES)), ", ".join(strangers) or "nothing"
            raise ScopeRequiredError(f"a tenant query may read {allowed}; not {refused}")
        own = TABLES | _ONE_KEY if len(scope.pseudonyms) == 1 else TABLES
        defined = {**self._base, **{name: text for name, text in own.items() if text}}
        needed = _with_dependencies(named, defined)
        tables = ", ".join(f"{name} AS ({defined[name]})" for name in needed)
        text = f"WITH {tables} {sql}" if tables else sql
        return self._handle.rows(text, {**self._params, **params, "scope": list(scope.pseudonyms)})


def _with_dependencies(named: set[str], defined: Mapping[str, str]) -> list[str]:
    """Those of the tables that the named ones are made of, in the order of `defined`: no others are planned."""
    needed, asked = set(), set(named) & defined.keys()
    while asked:
        needed |= asked
        asked = {one for name in asked for one in _REFERENCE.findall(defined[name])} & defined.keys() - needed
    return [name for name in defined if name in needed]
