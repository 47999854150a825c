"""SQL of a frozen question: the verdicts as they stood, and which of them an incident is about.

Each text is a table for a WITH clause. Two incidents can stand in one query: every name and parameter ends in a suffix
of its own.
"""

from __future__ import annotations

from typing import Any

from detectors.joins import DECODE_NOT_SEEN
from detectors.verdicts import LEG_NOT_SEEN
from engine_hooks.conventions import UNATTRIBUTED
from notify.answers import IncidentRef
from notify.incidents.definition import AsOf, Definition, Incident, Resolved, moment
from notify.times import iso

_IN_WINDOW = "started < {end@:DateTime64(9, 'UTC')} AND (ended IS NULL OR ended >= {start@:DateTime64(9, 'UTC')})"
# What is known only by its delivery, or by its prefill leg, may have run on any node, and on any model where none is
# named: it stays in, and unknown.
_ASKED = f"""
    (empty({{models@:Array(String)}}) OR has({{models@:Array(String)}}, model) OR model = '')
    AND (empty({{emitters@:Array(String)}}) OR has({{emitters@:Array(String)}}, emitter)
        OR hasAny(reasons, ['{LEG_NOT_SEEN}', '{DECODE_NOT_SEEN}']))"""
_NAMED = """
    empty({rules@:Array(String)})
    OR arrayExists(
        one -> has({rules@:Array(String)}, one) OR has({rules@:Array(String)}, splitByChar('.', one)[1]), rules)
"""
LEFT_OUT = f"""multiIf(
    has({{excluded_traffic@:Array(String)}}, traffic), 'traffic',
    has({{excluded_tenants@:Array(Tuple(String, String))}}, (tenant_key, tenant)), 'tenant',
    has({{excluded_emitters@:Array(String)}}, emitter) AND NOT hasAny(reasons, ['{LEG_NOT_SEEN}', '{DECODE_NOT_SEEN}']),
        'node',
    verdict = 'violation' AND NOT has({{effects@:Array(String)}}, 'contamination'), 'effect',
    verdict = 'violation' AND NOT ({_NAMED}), 'rule',
    '')"""
"""SQL: why a response of the window is none of the incident, or ''; the first that holds."""

# In the order of the table's key, so that it is read in order and never sorted as a whole.
_STOOD = """
    SELECT * FROM (
        SELECT * FROM response_versions WHERE version <= {as_of@:UInt64} AND SOME
        ORDER BY response_uid DESC, version DESC LIMIT 1 BY response_uid
    ) WHERE verdict != 'retired'"""
_OWN = """response_uid IN (
            SELECT response_uid FROM response_versions
            WHERE (tenant_key, tenant) IN {scope:Array(Tuple(String, String))})"""
_READ = "response_uid IN (SELECT response_uid FROM foreign_range_versions)"
_NOBODYS = f"""response_uid IN (SELECT response_uid FROM response_versions WHERE tenant = '{UNATTRIBUTED}')"""
_STOOD_IN_WINDOW = f"""
    SELECT *, toInt8(1) AS sign FROM (
        SELECT * FROM response_versions
        WHERE version <= {{as_of@:UInt64}} AND CANDIDATES
        ORDER BY response_uid DESC, version DESC LIMIT 1 BY response_uid
    ) WHERE verdict != 'retired' AND {_IN_WINDOW} AND {_ASKED}"""
# The same from the newest rows, to be counted by their signs: right for all responses but those that have a version of
# then and a later one too, which are few, and read from the versions.
_STOOD_SIGNED = f"""
    SELECT * FROM newest_responses
    WHERE version <= {{as_of@:UInt64}} AND response_uid NOT IN {{later@:Array(String)}} AND {_IN_WINDOW} AND {_ASKED}
    UNION ALL
    {_STOOD_IN_WINDOW.replace("CANDIDATES", "response_uid IN {later@:Array(String)}")}"""
LATER = """
SELECT response_uid FROM response_versions GROUP BY response_uid
HAVING min(version) <= {as_of:UInt64} AND max(version) > {as_of:UInt64} ORDER BY response_uid LIMIT {most:UInt64}
"""
"""SQL: responses whose newest version is later than that of an incident which has an earlier one too."""

_OWN_DONORS = """
    SELECT f.response_uid AS response_uid, uniqExact(f.donor_tenant_key, f.donor_tenant) AS own
    FROM foreign_range_versions AS f
    INNER JOIN (SELECT response_uid, version, tenant_key, tenant FROM stood@ WHERE scope = 'cross_tenant') AS r
        ON r.response_uid = f.response_uid AND r.version = f.version
    WHERE f.scope = 'cross_tenant' AND has(
        {one_tenant@:Array(Tuple(String, String, String, String))},
        (r.tenant_key, r.tenant, f.donor_tenant_key, f.donor_tenant))
    GROUP BY response_uid"""
_SCOPE = f"if(r.scope = '' AND r.verdict = 'violation', '{UNATTRIBUTED}', r.scope)"
_JUDGED = f"""
    SELECT r.* EXCEPT (scope), {_SCOPE} AS scope, {LEFT_OUT} AS left_out FROM stood@ AS r"""
_JUDGED_ROTATED = f"""
    SELECT
        r.* EXCEPT (scope, donor_tenants), greatest(r.donor_tenants - o.own, 0) AS donor_tenants,
        multiIf(
            r.scope != 'cross_tenant' OR o.own = 0 OR r.donor_tenants > o.own, {_SCOPE},
            r.unattributed_slots > 0, '{UNATTRIBUTED}', 'same_tenant') AS scope,
        {LEFT_OUT} AS left_out
    FROM stood@ AS r LEFT JOIN own_donors@ AS o ON o.response_uid = r.response_uid"""
_AFFECTED = """
    SELECT * FROM judged@ WHERE left_out = '' AND verdict = 'violation' AND has({scopes@:Array(String)}, scope)"""


HITS = f"""response_uid IN (
            SELECT response_uid FROM response_versions
            WHERE version <= {{as_of@:UInt64}} AND {_IN_WINDOW}
                AND (verdict = 'violation' OR notEmpty(exposure_rules)))"""
"""SQL: only what some rule named, at some time: few of all responses, and found without judging the others."""


def tables(resolved: Resolved, suffix: str = "", candidates: str = "true", *, signed: bool = False) -> str:
    """A WITH clause with `judged` (every response of the window, with why it is left out) and `affected`.

    `candidates` leaves out what never had a version like this: a condition over columns of `response_versions`.
    `signed`: from the newest rows, to be counted by the column `sign`; it takes the answer of LATER as `later`.
    """
    stood = _STOOD_SIGNED if signed else _STOOD_IN_WINDOW
    named = {"stood@": stood, "judged@": _JUDGED, "affected@": _AFFECTED}
    if resolved.one_tenant:  # a key was rotated: what the tenant itself wrote under the other is not foreign
        named = {**named, "own_donors@": _OWN_DONORS, "judged@": _JUDGED_ROTATED}
    order = [name for name in ("stood@", "own_donors@", "judged@", "affected@") if name in named]
    text = ", ".join(f"{name} AS ({named[name]})" for name in order)
    return text.replace("CANDIDATES", candidates).replace("@", suffix)


def params(definition: Definition, resolved: Resolved, as_of: AsOf, suffix: str = "") -> dict[str, Any]:
    """Parameters of :func:`tables`."""
    values = {
        "as_of": as_of.version,
        "start": definition.window.params()["window_start"],
        "end": definition.window.params()["window_end"],
        "models": list(definition.models),
        "rules": list(definition.rules),
        "effects": list(definition.effects),
        "scopes": list(definition.scopes),
        "excluded_traffic": list(definition.excluded_traffic),
        "excluded_tenants": list(definition.excluded_tenants),
        "emitters": list(resolved.emitters),
        "excluded_emitters": list(resolved.excluded_emitters),
        "one_tenant": list(resolved.one_tenant),
    }
    return {name + suffix: value for name, value in values.items()}


def tenant_tables(incident: Incident) -> tuple[dict[str, str], dict[str, Any]]:
    """Tables under the names of the store's, as they stood for this incident, for one tenant's question; parameters.

    `asked_signed` are those that the incident is about: the window and the scopes are the question's to check.
    """
    suffix, asked = "_of_incident", f"{_ASKED} AND {LEFT_OUT} = ''"
    found = {
        "responses": _STOOD.replace("SOME", "true"),
        "own_responses": _STOOD.replace("SOME", _OWN),
        "own_asked": f"SELECT * FROM own_responses AS r WHERE {asked}",
        "asked_readers": f"SELECT * FROM ({_STOOD.replace('SOME', _READ)}) AS r WHERE {asked}",
        "own_signed": "SELECT *, toInt8(1) AS sign FROM own_responses",
        "own_asked_signed": "SELECT *, toInt8(1) AS sign FROM own_asked",
        "asked_signed": f"SELECT *, toInt8(1) AS sign FROM responses AS r WHERE {asked}",
        "nobodys_signed": f"""
            SELECT *, toInt8(1) AS sign FROM ({_STOOD.replace("SOME", _NOBODYS)}) AS r
            WHERE tenant = '{UNATTRIBUTED}' AND {asked}""",
        "own_heard": """
            SELECT tenant_key, tenant, min(h.first) AS first,
                least(max(h.last), fromUnixTimestamp64Nano({cursor@:Int64}, 'UTC')) AS last
            FROM tenants_heard AS h GROUP BY tenant_key, tenant
            HAVING toUnixTimestamp64Nano(min(h.first)) <= {cursor@:Int64}""",
        "findings": """
            SELECT * EXCEPT (retracted) FROM (
                SELECT * FROM finding_versions WHERE version <= {as_of@:UInt64}
                ORDER BY finding_id DESC, version DESC LIMIT 1 BY finding_id
            ) WHERE NOT retracted""",
        "foreign_ranges": """
            SELECT DISTINCT f.* FROM foreign_range_versions AS f
            INNER JOIN (
                SELECT response_uid, max(version) AS last FROM response_versions
                WHERE version <= {as_of@:UInt64} AND response_uid IN (SELECT response_uid FROM foreign_range_versions)
                GROUP BY response_uid
            ) AS newest ON f.response_uid = newest.response_uid AND f.version = newest.last""",
        "evidence": "SELECT * FROM evidence WHERE toUnixTimestamp64Nano(received_at) <= {cursor@:Int64}",
        "detection_state": """
            SELECT
                as_of_judged_at AS judged_at, fromUnixTimestamp64Nano(as_of_cursor, 'UTC') AS cursor,
                as_of_watermark AS watermark, as_of_evidence_from AS evidence_from, as_of_rule_set AS rule_set
            FROM incident_revisions WHERE name = {incident@:String} AND revision = {revision@:UInt32} LIMIT 1""",
    }
    values = params(incident.definition, incident.resolved, incident.as_of, suffix)
    own = {"cursor": incident.as_of.cursor, "incident": incident.name, "revision": incident.revision}
    values |= {name + suffix: value for name, value in own.items()}
    return {name: text.replace("@", suffix) for name, text in found.items()}, values


def reference(incident: Incident) -> IncidentRef:
    """What a tenant is told of an incident: no node and no tenant that its definition names."""
    definition = incident.definition
    return IncidentRef(
        name=incident.name,
        revision=incident.revision,
        frozen_at=iso(moment(incident.as_of.cursor)),
        models=list(definition.models),
        rules=list(definition.rules),
        excluded_traffic=list(definition.excluded_traffic),
        some_nodes=bool(definition.nodes or definition.excluded_nodes),
    )
