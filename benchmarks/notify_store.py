"""A store of so many judged responses for benchmarks, made in the engine: verdicts and what names their tenants, but
none of the other evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from collector.store import Handle
from detectors.newest import settle
from engine_hooks.identity import Key, pseudonym

KEY = Key("k1", bytes(range(32)))
START = datetime(2026, 9, 1, tzinfo=UTC)
DAYS = 30
TENANTS = 200
CHUNK = 100_000
RULE_SET = "6 rules, control tier; queued, not landed"

# Sizes of tenants fall steeply: the largest has one response in six, the smallest one in forty thousand. Each has a
# share of affected responses of its own, from 0.1 to 5 %. Every second response was pending first.
_DRAWN = f"""
    SELECT
        number, lower(hex(MD5(toString(number)))) AS uid,
        (cityHash64(number, 1) % 1000003) / 1000003 AS luck, (cityHash64(number, 2) % 1000003) / 1000003 AS fate,
        toUInt32(floor({TENANTS} * pow(luck, 3))) AS place,
        0.001 + 0.049 * ((place * 37) % {TENANTS}) / {TENANTS} AS share,
        multiIf(fate < share, 'violation', fate < share + 0.004, 'unknown', 'clean') AS verdict,
        if(cityHash64(number, 3) % 500 = 0, 'unattributed', {{names}}[place + 1]) AS tenant,
        if(tenant = 'unattributed', '', '{KEY.id}') AS tenant_key,
        addNanoseconds(toDateTime64('{START:%Y-%m-%d}', 9, 'UTC'), number * {{step}}) AS started,
        if(verdict = 'violation', ['read_unwritten_page'], []) AS rules
    FROM numbers({{first}}, {{count}})"""
_RESPONSES = """
INSERT INTO response_versions
SELECT
    uid, {version} + number + stage, lower(hex(MD5(uid))), tenant, tenant_key, 'customer',
    lower(hex(MD5(reverse(uid)))), 'tiny', concat('host', toString(number % 16), '/decode-31001-tp0'), started,
    started + toIntervalSecond(4),
    if(stage = 0, 'pending', verdict), if(stage = 1 AND verdict != 'unknown', [], ['peer_not_seen']),
    if(stage = 1 AND verdict = 'clean', '{rules}', ''), if(stage = 1 AND verdict = 'violation', 'cross_tenant', ''),
    false, 100 + number % 400, 100 + number % 400, 200 + number % 3000, 200, 'stop',
    if(stage = 1 AND verdict = 'violation', 48, 0), 0, 0, if(stage = 1 AND verdict = 'violation', 1, 0),
    if(stage = 1, rules, []), if(stage = 1 AND number % 97 = 0, ['transfer_short.committed'], [])
FROM (SELECT *, {stage} AS stage FROM ({drawn})) WHERE stage = 1 OR number % 2 = 0
"""
_RANGES = """
INSERT INTO foreign_range_versions
SELECT
    uid, {version} + number + 1, number % 5000 + part, 0, 16, 160 + 16 * part, 'cross_tenant', 'stale_page',
    lower(hex(MD5(toString(number - 1)))) AS donor, donor, {names}[(place + 1 + number % 7) % {tenants} + 1],
    '{key}', ''
FROM ({drawn}) ARRAY JOIN [0, 1, 2] AS part WHERE verdict = 'violation'
"""
_FINDINGS = """
INSERT INTO finding_versions
SELECT
    lower(hex(MD5(concat('f', uid)))), {version} + number + 1, false,
    if(verdict = 'violation', 'read_unwritten_page', 'transfer_short'), if(verdict = 'violation', '', 'committed'),
    if(verdict = 'violation', 'contamination', 'exposure_risk'), 'critical', uid, uid, tenant, tenant_key, started,
    NULL, NULL, 'The transfer was taken for complete with less than what was reserved.'
FROM ({drawn}) WHERE verdict = 'violation' OR number % 97 = 0
"""
_EVIDENCE = """
INSERT INTO evidence (received_at, emitter, boot, contract, span, uid, time, seq, leg_ordinal, tenant_id, tenant_key,
    content_hash)
SELECT started, concat('host', toString(number % 16), '/decode-31001-tp0') AS node, hex(MD5(node)), 2,
    'pagewitness.response', uid, started, intDiv(number, 16) + 1, 1, tenant, tenant_key, cityHash64(uid)
FROM ({drawn})
"""


def tenant_names() -> list[str]:
    """The largest tenant first."""
    return [f"tenant-{number:03}" for number in range(TENANTS)]


def fill(handle: Handle, size: int) -> None:
    """Write so many responses, chunk after chunk as passes of detection would, and the state of a pass that ended."""
    names = str([pseudonym(KEY, name) for name in tenant_names()])
    words = {"names": names, "version": "1000000", "tenants": str(TENANTS), "key": KEY.id, "rules": RULE_SET}
    for first in range(0, size, CHUNK):
        step = str(DAYS * 86_400 * 10**9 // size)
        drawn = _DRAWN.format(names=names, step=step, first=first, count=min(CHUNK, size - first))
        for stage, statements in enumerate(((_EVIDENCE, _RESPONSES), (_RANGES, _RESPONSES, _FINDINGS))):
            for statement in statements:
                handle.command(statement.format(drawn=drawn, stage=stage, **words))
            settle(handle, 1_000_000 + first)
    ended = START + timedelta(days=DAYS, hours=1)
    handle.insert(
        "detection_runs",
        ("judged_at", "cursor", "watermark", "evidence_from", "rule_set"),
        [[ended, ended, ended, START, RULE_SET]],
    )
