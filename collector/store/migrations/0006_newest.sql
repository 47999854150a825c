-- What answers need without reading every version: the newest rows, by tenant.
--
-- Every version of a verdict stays (migration 5). Beside them stand the newest rows alone, each once, in the order in
-- which answers ask for them. What a pass changes it first writes as a version, and then brings these tables in line:
-- the row that stood is written again with the sign -1, the new one with +1, both in one insert
-- (`detectors.results`). So a sum of signs counts right at any moment, and FINAL gives the rows. The old row lies under
-- its own key, which the tenant, the times and the verdict are part of: all of these can change.
CREATE TABLE IF NOT EXISTS newest_responses
(
    response_uid String,
    version UInt64,
    prefill_uid String,
    tenant LowCardinality(String),
    tenant_key LowCardinality(String),
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
    exposure_rules Array(String),
    sign Int8,
    INDEX by_uid response_uid TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_rid rid TYPE bloom_filter(0.01) GRANULARITY 1,
    PROJECTION counts (SELECT verdict, tenant_key, tenant, sum(sign) GROUP BY verdict, tenant_key, tenant)
)
ENGINE = VersionedCollapsingMergeTree(sign, version)
ORDER BY (verdict, tenant_key, tenant, started, response_uid)
SETTINGS default_compression_codec = 'ZSTD(1)', index_granularity = 1024, deduplicate_merge_projection_mode = 'rebuild';

CREATE TABLE IF NOT EXISTS newest_findings
(
    finding_id String,
    version UInt64,
    rule LowCardinality(String),
    variant LowCardinality(String),
    effect LowCardinality(String),
    severity LowCardinality(String),
    subject String,
    response_uid String,
    tenant LowCardinality(String),
    tenant_key LowCardinality(String),
    time DateTime64(9, 'UTC'),
    tokens_from Nullable(Int64),
    tokens_to Nullable(Int64),
    detail String,
    sign Int8,
    INDEX by_uid response_uid TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = VersionedCollapsingMergeTree(sign, version)
ORDER BY (tenant_key, tenant, effect, response_uid, finding_id)
SETTINGS default_compression_codec = 'ZSTD(1)', index_granularity = 1024;

TRUNCATE TABLE newest_responses;

INSERT INTO newest_responses
SELECT *, 1 AS sign FROM (SELECT * FROM response_versions ORDER BY response_uid DESC, version DESC LIMIT 1 BY response_uid)
WHERE verdict != 'retired';

TRUNCATE TABLE newest_findings;

INSERT INTO newest_findings
SELECT * EXCEPT (retracted), 1 AS sign
FROM (SELECT * FROM finding_versions ORDER BY finding_id DESC, version DESC LIMIT 1 BY finding_id)
WHERE NOT retracted;

DROP VIEW IF EXISTS responses;

CREATE VIEW responses AS
SELECT
    response_uid, version, prefill_uid, tenant, tenant_key, traffic, rid, model, emitter, started, ended, verdict,
    reasons, clean_for, scope, derived, tokens_delivered, output_tokens, input_tokens, http_status, finish,
    foreign_slots, unattributed_slots, no_writer_slots, donor_tenants, rules, exposure_rules
FROM newest_responses FINAL;

DROP VIEW IF EXISTS findings;

CREATE VIEW findings AS
SELECT
    finding_id, version, rule, variant, effect, severity, subject, response_uid, tenant, tenant_key, time,
    tokens_from, tokens_to, detail
FROM newest_findings FINAL;

-- Only an affected response has ranges, so a clean one needs no look.
DROP VIEW IF EXISTS foreign_ranges;

CREATE VIEW foreign_ranges AS
SELECT DISTINCT * FROM foreign_range_versions
WHERE (response_uid, version) IN (SELECT response_uid, version FROM newest_responses FINAL WHERE verdict != 'clean');

-- The same ranges by whose KV it was: every version, of those whose it is. One stands if the response that read it does,
-- in its version.
CREATE TABLE IF NOT EXISTS donated_range_versions
(
    donor_tenant_key LowCardinality(String),
    donor_tenant LowCardinality(String),
    response_uid String,
    version UInt64,
    token_start Int64,
    scope LowCardinality(String),
    donor_uid String,
    donor_response_uid String
)
ENGINE = ReplacingMergeTree
ORDER BY (donor_tenant_key, donor_tenant, response_uid, version, donor_uid, token_start)
SETTINGS default_compression_codec = 'ZSTD(1)';

DROP VIEW IF EXISTS donated_range_feed;

CREATE MATERIALIZED VIEW donated_range_feed TO donated_range_versions AS
SELECT
    donor_tenant_key, donor_tenant, response_uid, version, token_start, scope, donor_uid,
    donor_response_uid
FROM foreign_range_versions WHERE donor_tenant_key != '';

TRUNCATE TABLE donated_range_versions;

INSERT INTO donated_range_versions
SELECT
    donor_tenant_key, donor_tenant, response_uid, version, token_start, scope, donor_uid,
    donor_response_uid
FROM foreign_range_versions WHERE donor_tenant_key != '';

-- When evidence of each tenant arrived: whether there is any, and whether some was not judged yet.
CREATE TABLE IF NOT EXISTS tenants_heard
(
    tenant_key LowCardinality(String),
    tenant LowCardinality(String),
    first SimpleAggregateFunction(min, DateTime64(9, 'UTC')),
    last SimpleAggregateFunction(max, DateTime64(9, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (tenant_key, tenant);

DROP VIEW IF EXISTS tenants_heard_feed;

CREATE MATERIALIZED VIEW tenants_heard_feed TO tenants_heard AS
SELECT tenant_key, tenant_id AS tenant, min(received_at) AS first, max(received_at) AS last
FROM evidence WHERE tenant_key != '' GROUP BY tenant_key, tenant;

INSERT INTO tenants_heard
SELECT tenant_key, tenant_id AS tenant, min(received_at) AS first, max(received_at) AS last
FROM evidence WHERE tenant_key != '' GROUP BY tenant_key, tenant;

-- Bytes: ids and numbers of neighbouring facts have much in common. What is stored already follows as it is merged.
ALTER TABLE evidence MODIFY SETTING default_compression_codec = 'ZSTD(3)';

ALTER TABLE evidence MODIFY COLUMN seq CODEC(Delta, ZSTD(3)), MODIFY COLUMN time CODEC(Delta, ZSTD(3));

ALTER TABLE response_versions MODIFY SETTING default_compression_codec = 'ZSTD(1)';

ALTER TABLE foreign_range_versions MODIFY SETTING default_compression_codec = 'ZSTD(1)';
