-- What detection needs beyond 0002: legs told apart by identity, clocks of hosts, ranks by name, counts of requests that
-- the hooks have no part in.

-- Filled anew by each pass, so nothing in it is worth keeping.
DROP TABLE IF EXISTS request_rollup;

CREATE TABLE IF NOT EXISTS request_rollup
(
    response_uid String,
    prefill_uid String,
    join_basis LowCardinality(String),
    tenant String,
    tenant_key String,
    decode_node String,
    prefill_node String,
    started DateTime64(9, 'UTC'),
    decode_ended Nullable(DateTime64(9, 'UTC')),
    prefill_ended Nullable(DateTime64(9, 'UTC')),
    prefill_ended_by Nullable(DateTime64(9, 'UTC')), -- the same by the decode node's clock, at the latest
    decode_rejected Bool,
    prefill_rejected Bool,
    progress_after_reject Array(String),
    reused_identities Array(String), -- variants of identity_reuse that the legs of this request took part in
    reserved_at Nullable(DateTime64(9, 'UTC')),
    reserved_pages Nullable(Int64),
    prompt_tokens Nullable(Int64),
    covered_to Nullable(Int64),
    queued_pages Nullable(Int64),
    committed Bool,
    took_early Bool, -- decode took it before prefill had said that all had landed
    refused Bool,
    read_tokens Nullable(Int64),
    decode_end_state LowCardinality(String),
    prefill_end_state LowCardinality(String),
    seen_to DateTime64(9, 'UTC'), -- the watermark by the decode node's clock, at the earliest
    tainted_from Nullable(Int64), -- positions that it read of KV that was foreign, or computed over such, from a cache
    tainted_to Nullable(Int64)
)
ENGINE = Memory;

ALTER TABLE evidence ADD INDEX IF NOT EXISTS by_rid rid TYPE bloom_filter(0.01) GRANULARITY 1;

-- The clock of each boot's host against the receiver's, in ns to add, as its agents measured it, by the hour.
CREATE TABLE IF NOT EXISTS boot_clocks
(
    subject_emitter LowCardinality(String),
    subject_boot String,
    hour DateTime('UTC'),
    low SimpleAggregateFunction(min, Int64),
    high SimpleAggregateFunction(max, Int64)
)
ENGINE = AggregatingMergeTree
ORDER BY (hour, subject_emitter, subject_boot);

CREATE MATERIALIZED VIEW IF NOT EXISTS boot_clocks_feed TO boot_clocks AS
SELECT
    subject_emitter,
    subject_boot,
    toStartOfHour(toDateTime(time, 'UTC')) AS hour,
    min(assumeNotNull(clock_offset) - assumeNotNull(clock_error)) AS low,
    max(assumeNotNull(clock_offset) + assumeNotNull(clock_error)) AS high
FROM evidence
WHERE span = 'pagewitness.emitter' AND clock_offset IS NOT NULL AND clock_error >= 0
    AND extract(emitter, '^(.*)/[^/]*$') = extract(subject_emitter, '^(.*)/[^/]*$')
GROUP BY subject_emitter, subject_boot, hour;

-- Which agents, each one life of a process, drained a boot. An agent reads the rings of its own host, so boots that one
-- agent drained have one clock.
CREATE TABLE IF NOT EXISTS boot_agents
(
    subject_emitter LowCardinality(String),
    subject_boot String,
    agent_boot String
)
ENGINE = ReplacingMergeTree
ORDER BY (subject_emitter, subject_boot, agent_boot);

CREATE MATERIALIZED VIEW IF NOT EXISTS boot_agents_feed TO boot_agents AS
SELECT DISTINCT subject_emitter, subject_boot, concat(emitter, ' ', boot) AS agent_boot
FROM evidence
WHERE span = 'pagewitness.emitter'
    AND extract(emitter, '^(.*)/[^/]*$') = extract(subject_emitter, '^(.*)/[^/]*$');

-- Requests that the engine of a boot had finished by its own count, and answers that its legs recorded, by the minute.
CREATE TABLE IF NOT EXISTS engine_counts
(
    emitter LowCardinality(String),
    boot String,
    minute DateTime('UTC'),
    requests SimpleAggregateFunction(max, Int64),
    answers SimpleAggregateFunction(sum, UInt64)
)
ENGINE = AggregatingMergeTree
ORDER BY (emitter, boot, minute);

CREATE MATERIALIZED VIEW IF NOT EXISTS engine_requests_feed TO engine_counts AS
SELECT
    subject_emitter AS emitter,
    subject_boot AS boot,
    toStartOfMinute(toDateTime(fromUnixTimestamp64Nano(assumeNotNull(attested), 'UTC'), 'UTC')) AS minute,
    max(assumeNotNull(engine_requests)) AS requests,
    toUInt64(0) AS answers
FROM evidence AS e
WHERE span = 'pagewitness.emitter' AND engine_requests IS NOT NULL AND attested > 0
    AND extract(e.emitter, '^(.*)/[^/]*$') = extract(subject_emitter, '^(.*)/[^/]*$')
GROUP BY emitter, boot, minute;

CREATE MATERIALIZED VIEW IF NOT EXISTS engine_answers_feed TO engine_counts AS
SELECT
    emitter,
    boot,
    toStartOfMinute(toDateTime(time, 'UTC')) AS minute,
    toInt64(0) AS requests,
    count() AS answers
FROM evidence
WHERE span = 'pagewitness.response'
GROUP BY emitter, boot, minute;

-- The newest configuration of each boot; `settings` counts how many different ones it had of what never changes.
CREATE OR REPLACE VIEW nodes AS
SELECT
    emitter,
    boot,
    argMax(c.node_id, seq) AS node,
    argMax(c.node_role, seq) AS role,
    argMax(c.rank, seq) AS rank,
    argMax(c.ranks, seq) AS ranks,
    argMax(c.rank_names, seq) AS rank_names,
    argMax(c.engine_version, seq) AS engine_version,
    argMax(c.gen_ai_request_model, seq) AS model,
    argMax(c.context_tokens, seq) AS context_tokens,
    argMax(c.pool_tokens, seq) AS pool_tokens,
    argMax(c.input_limit, seq) AS input_limit,
    argMax(c.page_size, seq) AS page_size,
    -- blind once is blind for the boot: nobody knows which legs ran before a change
    groupUniqArrayArray(c.hooks_missing) AS hooks_missing,
    min(c.contract) AS contract,
    uniqExact(c.node_id, c.node_role, c.rank, c.ranks, c.page_size) AS settings,
    min(c.time) AS time
FROM facts AS c
WHERE span = 'pagewitness.node.config'
GROUP BY emitter, boot;
