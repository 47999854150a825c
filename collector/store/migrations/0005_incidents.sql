-- Incidents: named, frozen questions, and what a frozen question needs: every version of every verdict, and up to which
-- version a pass of detection had come when it ended.

-- Until here a merge could drop a version that a newer one had replaced, and an answer as of then with it. From here on
-- the version is part of the key, and only the same version twice is one row. The statements run in this order so that a
-- migration that was cut off anywhere can run again from its start: before the exchange the copy is thrown away, after it
-- the original, of which the copy has everything.
DROP TABLE IF EXISTS response_versions_kept;

-- Looked up by ids that lie far apart, so in small granules.
CREATE TABLE response_versions_kept AS response_versions
ENGINE = ReplacingMergeTree
ORDER BY (response_uid, version)
SETTINGS index_granularity = 1024;

INSERT INTO response_versions_kept SELECT * FROM response_versions;

EXCHANGE TABLES response_versions AND response_versions_kept;

DROP TABLE IF EXISTS response_versions_kept;

DROP TABLE IF EXISTS finding_versions_kept;

CREATE TABLE finding_versions_kept AS finding_versions
ENGINE = ReplacingMergeTree
ORDER BY (finding_id, version)
SETTINGS index_granularity = 1024;

INSERT INTO finding_versions_kept SELECT * FROM finding_versions;

EXCHANGE TABLES finding_versions AND finding_versions_kept;

DROP TABLE IF EXISTS finding_versions_kept;

-- Where a pass of detection had come: `version` is the newest that stood in the store when the pass noted that it had
-- ended, so every row of the pass and of all before it is at or below it, and every row of later passes above it. It is
-- taken from the rows themselves: the cursor of a pass is a time of arrival, and another clock than that of versions.
CREATE TABLE IF NOT EXISTS detection_ends
(
    judged_at DateTime64(9, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(judged_at)
ORDER BY tuple();

DROP VIEW IF EXISTS detection_ends_feed;

CREATE MATERIALIZED VIEW detection_ends_feed TO detection_ends AS
SELECT judged_at, greatest(
    (SELECT max(version) FROM response_versions), (SELECT max(version) FROM finding_versions)) AS version
FROM detection_runs;

-- No pass is under way while a store is being migrated.
INSERT INTO detection_ends
SELECT judged_at, greatest(
    (SELECT max(version) FROM response_versions), (SELECT max(version) FROM finding_versions)) AS version
FROM detection_runs ORDER BY judged_at DESC LIMIT 1;

-- One row a revision of an incident, never changed: a newer one has a higher number and says what it is frozen at.
-- Tenants stand here as pseudonyms only.
CREATE TABLE IF NOT EXISTS incident_revisions
(
    name String,
    revision UInt32,
    defined_at DateTime64(3, 'UTC'),
    note String,
    window_from DateTime64(9, 'UTC'),
    window_to DateTime64(9, 'UTC'),
    models Array(String),
    rules Array(String), -- `rule` or `rule.variant`, empty for all
    effects Array(String),
    scopes Array(String),
    excluded_traffic Array(String),
    excluded_tenants Array(Tuple(String, String)), -- (id of the key, pseudonym), of every key
    nodes Array(String), -- empty for all
    excluded_nodes Array(String),
    emitters Array(String), -- what `nodes` came to when it was defined, empty for all
    excluded_emitters Array(String),
    risk_labels Array(String), -- `rule.variant` of the effects other than contamination
    -- (recipient key, recipient, donor key, donor) that the operator's list said were one tenant
    one_tenant Array(Tuple(String, String, String, String)),
    as_of_version UInt64,
    as_of_cursor Int64, -- unix ns of the arrival of the newest fact that was judged
    as_of_judged_at DateTime64(9, 'UTC'),
    as_of_watermark DateTime64(9, 'UTC'),
    as_of_evidence_from Nullable(DateTime64(9, 'UTC')),
    as_of_rule_set String,
    as_of_rules_digest String,
    as_of_contract UInt32,
    gaps Array(String), -- why evidence of the window was not complete, a sentence each
    digest String -- of what was affected
)
ENGINE = ReplacingMergeTree
ORDER BY (name, revision)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

CREATE VIEW IF NOT EXISTS incidents AS
SELECT * FROM incident_revisions ORDER BY revision DESC LIMIT 1 BY name;
