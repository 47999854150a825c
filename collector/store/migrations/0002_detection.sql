-- What the detectors write and the answers read. Rows are replaced by a newer version of the same key, and the views give
-- the newest one. A verdict of a response can change when evidence comes late, so nothing here is ever updated in place.

CREATE TABLE IF NOT EXISTS response_versions
(
    response_uid String,
    version UInt64,
    prefill_uid String,
    tenant String,
    tenant_key String,
    traffic LowCardinality(String),
    rid String,
    model LowCardinality(String),
    emitter LowCardinality(String),
    started DateTime64(9, 'UTC'),
    ended Nullable(DateTime64(9, 'UTC')),
    verdict LowCardinality(String),
    reasons Array(String),
    clean_for String,
    scope LowCardinality(String),
    derived Bool,
    tokens_delivered Nullable(Int64),
    output_tokens Nullable(Int64),
    input_tokens Nullable(Int64),
    http_status Nullable(Int64),
    finish LowCardinality(String),
    foreign_slots Int64,
    unattributed_slots Int64,
    no_writer_slots Int64,
    donor_tenants Int64,
    rules Array(String),
    exposure_rules Array(String)
)
ENGINE = ReplacingMergeTree(version)
ORDER BY response_uid;

CREATE TABLE IF NOT EXISTS finding_versions
(
    finding_id String,
    version UInt64,
    retracted Bool,
    rule LowCardinality(String),
    variant LowCardinality(String),
    effect LowCardinality(String),
    severity LowCardinality(String),
    subject String,
    response_uid String,
    tenant String,
    tenant_key String,
    time DateTime64(9, 'UTC'),
    tokens_from Nullable(Int64),
    tokens_to Nullable(Int64),
    detail String
)
ENGINE = ReplacingMergeTree(version)
ORDER BY finding_id;

-- One row a slot range that a response read and that another leg had written (or nobody, or nobody knows who).
-- A judgement replaces all ranges of its response at once: the view shows those of the response's newest version.
CREATE TABLE IF NOT EXISTS foreign_range_versions
(
    response_uid String,
    version UInt64,
    page Int64,
    slot_start Int64,
    slot_end Int64,
    token_start Int64,
    scope LowCardinality(String),
    via LowCardinality(String),
    donor_uid String,
    donor_response_uid String,
    donor_tenant String,
    donor_tenant_key String,
    donor_rid String
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (response_uid, version, page, slot_start);

CREATE TABLE IF NOT EXISTS detection_runs
(
    judged_at DateTime64(9, 'UTC'),
    cursor DateTime64(9, 'UTC'), -- received_at of the newest fact that was judged
    watermark DateTime64(9, 'UTC'),
    evidence_from Nullable(DateTime64(9, 'UTC')),
    rule_set String
)
ENGINE = ReplacingMergeTree(judged_at)
ORDER BY tuple();

-- The joined legs of the requests that one pass judges: what every rule reads. Emptied and filled by each pass.
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
    decode_rejected Bool,
    prefill_rejected Bool,
    progress_after_reject Array(String),
    reserved_at Nullable(DateTime64(9, 'UTC')),
    reserved_pages Nullable(Int64),
    prompt_tokens Nullable(Int64),
    covered_to Nullable(Int64),
    queued_pages Nullable(Int64),
    committed Bool,
    refused Bool,
    read_tokens Nullable(Int64),
    decode_end_state LowCardinality(String),
    prefill_end_state LowCardinality(String),
    seen_to DateTime64(9, 'UTC')
)
ENGINE = Memory;

-- What each pass must know of every boot without reading all of its evidence: kept up to date as facts arrive.
ALTER TABLE evidence ADD INDEX IF NOT EXISTS by_room room TYPE bloom_filter(0.01) GRANULARITY 1;

CREATE TABLE IF NOT EXISTS boot_activity
(
    emitter LowCardinality(String),
    boot String,
    heard SimpleAggregateFunction(max, DateTime64(9, 'UTC')),
    first_time SimpleAggregateFunction(min, DateTime64(9, 'UTC')),
    fact_count SimpleAggregateFunction(sum, UInt64),
    newest_seq SimpleAggregateFunction(max, Int64)
)
ENGINE = AggregatingMergeTree
ORDER BY (emitter, boot);

CREATE MATERIALIZED VIEW IF NOT EXISTS boot_activity_feed TO boot_activity AS
SELECT
    emitter,
    boot,
    max(received_at) AS heard,
    min(time) AS first_time,
    count() AS fact_count,
    max(seq) AS newest_seq
FROM evidence
WHERE span != 'pagewitness.emitter'
GROUP BY emitter, boot;

-- Everything an agent says of a boot only ever grows, so the newest word is the maximum of all. An agent is heard only
-- on emitters of its own host, the part of the name before the last slash.
CREATE TABLE IF NOT EXISTS boot_words
(
    subject_emitter LowCardinality(String),
    subject_boot String,
    attested SimpleAggregateFunction(max, Int64),
    closed SimpleAggregateFunction(max, UInt8),
    drops SimpleAggregateFunction(max, Int64),
    high_water SimpleAggregateFunction(max, Int64),
    heard SimpleAggregateFunction(max, DateTime64(9, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (subject_emitter, subject_boot);

CREATE MATERIALIZED VIEW IF NOT EXISTS boot_words_feed TO boot_words AS
SELECT
    subject_emitter,
    subject_boot,
    max(assumeNotNull(e.attested)) AS attested,
    toUInt8(max(close != 'open')) AS closed,
    max(assumeNotNull(e.drops)) AS drops,
    max(assumeNotNull(seq_high_water)) AS high_water,
    max(received_at) AS heard
FROM evidence AS e
WHERE span = 'pagewitness.emitter'
    AND extract(emitter, '^(.*)/[^/]*$') = extract(subject_emitter, '^(.*)/[^/]*$')
GROUP BY subject_emitter, subject_boot;

-- When the facts of each boot were recorded, and nothing else of them: where a seq is missing, this says when that was.
CREATE VIEW IF NOT EXISTS fact_times AS
SELECT emitter, boot, seq, time FROM evidence WHERE span != 'pagewitness.emitter';

-- The newest configuration of each boot; `settings` counts how many different ones it had of what never changes.
CREATE VIEW IF NOT EXISTS nodes AS
SELECT
    emitter,
    boot,
    argMax(c.node_id, seq) AS node,
    argMax(c.node_role, seq) AS role,
    argMax(c.rank, seq) AS rank,
    argMax(c.ranks, seq) AS ranks,
    argMax(c.engine_version, seq) AS engine_version,
    argMax(c.gen_ai_request_model, seq) AS model,
    argMax(c.context_tokens, seq) AS context_tokens,
    argMax(c.pool_tokens, seq) AS pool_tokens,
    argMax(c.input_limit, seq) AS input_limit,
    argMax(c.page_size, seq) AS page_size,
    -- blind once is blind for the boot: nobody knows which legs ran before a change
    groupUniqArrayArray(c.hooks_missing) AS hooks_missing,
    uniqExact(c.node_id, c.node_role, c.rank, c.ranks, c.page_size) AS settings,
    min(c.time) AS time
FROM facts AS c
WHERE span = 'pagewitness.node.config'
GROUP BY emitter, boot;

CREATE VIEW IF NOT EXISTS responses AS
SELECT * FROM (SELECT * FROM response_versions ORDER BY version DESC LIMIT 1 BY response_uid)
WHERE verdict != 'retired';

CREATE VIEW IF NOT EXISTS findings AS
SELECT * EXCEPT (retracted) FROM (SELECT * FROM finding_versions ORDER BY version DESC LIMIT 1 BY finding_id)
WHERE NOT retracted;

CREATE VIEW IF NOT EXISTS foreign_ranges AS
SELECT DISTINCT r.* FROM foreign_range_versions AS r
INNER JOIN (SELECT response_uid, max(version) AS version FROM response_versions GROUP BY response_uid) AS newest
    ON r.response_uid = newest.response_uid AND r.version = newest.version;

CREATE VIEW IF NOT EXISTS detection_state AS
SELECT * FROM detection_runs ORDER BY judged_at DESC LIMIT 1;
