-- Evidence, as the contract has it (engine_hooks/conventions.py). Written by `python -m collector.store.schema`.
--
-- inbox -> decode -> decoded -> keep -> evidence      good spans
--                            -> list -> arrivals      what became of every span of the insert that is running;
--                                                     the writer copies its rejects to evidence_rejects

-- Whole export requests, as ClickHouse reads them from protobuf. Keeps nothing.
CREATE TABLE IF NOT EXISTS inbox
(
    received_at UInt64,
    resource_spans Array(Tuple(resource Tuple(attributes Array(Tuple(key String, value Tuple(value Enum8('absent' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'array_value' = 5), string_value String, bool_value Bool, int_value Int64, array_value Tuple(values Array(Tuple(value Enum8('absent' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'array_value' = 5), string_value String, int_value Int64))))))), scope_spans Array(Tuple(spans Array(Tuple(trace_id String, name String, start_time_unix_nano UInt64, attributes Array(Tuple(key String, value Tuple(value Enum8('absent' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'array_value' = 5), string_value String, bool_value Bool, int_value Int64, array_value Tuple(values Array(Tuple(value Enum8('absent' = 0, 'string_value' = 1, 'bool_value' = 2, 'int_value' = 3, 'array_value' = 5), string_value String, int_value Int64))))))))))))
)
ENGINE = Null;

-- One row a span, good or bad. Keeps nothing.
CREATE TABLE IF NOT EXISTS decoded
(
    received_at DateTime64(9, 'UTC'),
    emitter String,
    boot String,
    contract Int64,
    span String,
    uid String,
    time DateTime64(9, 'UTC'),
    ints Map(String, Nullable(Int64)),
    flags Map(String, Nullable(Bool)),
    words Map(String, String),
    int_lists Map(String, Array(Int64)),
    word_lists Map(String, Array(String)),
    content_hash UInt64,
    reason String,
    unknown_attributes UInt32,
    size UInt32
)
ENGINE = Null;

-- One row a fact and content, as it first came. Neighbours in (emitter, boot, seq) are neighbours in time too, and the
-- facts of a leg are near each other, so the indexes skip well.
CREATE TABLE IF NOT EXISTS evidence
(
    received_at DateTime64(9, 'UTC'),
    emitter LowCardinality(String),
    boot LowCardinality(String),
    contract Int64,
    span LowCardinality(String),
    uid String,
    time DateTime64(9, 'UTC'),
    seq Int64,
    node_id String,
    node_role LowCardinality(String),
    rank Nullable(Int64),
    ranks Nullable(Int64),
    engine LowCardinality(String),
    engine_version LowCardinality(String),
    gen_ai_request_model LowCardinality(String),
    context_tokens Nullable(Int64),
    pool_tokens Nullable(Int64),
    input_limit Nullable(Int64),
    page_size Nullable(Int64),
    kv_dtype LowCardinality(String),
    kv_layers Nullable(Int64),
    transfer_backend LowCardinality(String),
    prefix_cache Nullable(Bool),
    tier LowCardinality(String),
    hooks_attached Array(String),
    hooks_missing Array(String),
    config_fingerprint String,
    leg_ordinal Nullable(Int64),
    tenant_id LowCardinality(String),
    tenant_key LowCardinality(String),
    traffic LowCardinality(String),
    admission_state LowCardinality(String),
    admission_reason LowCardinality(String),
    tokens_need Nullable(Int64),
    room Nullable(Int64),
    rid String,
    http_response_status_code Nullable(Int64),
    transfer_side LowCardinality(String),
    transfer_status LowCardinality(String),
    transfer_session LowCardinality(String),
    transfer_destination String,
    pages_start Array(Int64),
    pages_length Array(Int64),
    page_count Nullable(Int64),
    prefix_tokens Nullable(Int64),
    prompt_tokens Nullable(Int64),
    chunk_page Nullable(Int64),
    chunk_tokens Nullable(Int64),
    sender_pages Nullable(Int64),
    slot Nullable(Int64),
    read_phase LowCardinality(String),
    read_tokens Nullable(Int64),
    row Nullable(Int64),
    row_generation Nullable(Int64),
    release_mode LowCardinality(String),
    pages_complete Nullable(Bool),
    written_start Nullable(Int64),
    written_end Nullable(Int64),
    finish LowCardinality(String),
    gen_ai_usage_input_tokens Nullable(Int64),
    gen_ai_usage_output_tokens Nullable(Int64),
    tokens_delivered Nullable(Int64),
    end_state LowCardinality(String),
    leg_facts Nullable(Int64),
    queued_pages Nullable(Int64),
    queued_tokens Nullable(Int64),
    subject_emitter LowCardinality(String),
    subject_boot String,
    seq_high_water Nullable(Int64),
    drops Nullable(Int64),
    hook_errors Nullable(Int64),
    attested Nullable(Int64),
    close LowCardinality(String),
    content_hash UInt64,
    INDEX by_uid uid TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_received_at received_at TYPE minmax GRANULARITY 1,
    INDEX by_time time TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (emitter, boot, seq)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- What the insert that is running brought: emptied before each, for the writer only.
CREATE TABLE IF NOT EXISTS arrivals
(
    received_at DateTime64(9, 'UTC'),
    emitter LowCardinality(String),
    boot LowCardinality(String),
    seq Nullable(Int64),
    reason LowCardinality(String),
    unknown_attributes UInt32,
    size UInt32,
    content_hash UInt64
)
ENGINE = Memory;

-- Spans that were not stored and, as `unknown_attribute`, spans stored without what the contract does not know. Reasons
-- are our own words and names of the contract; there is no foreign name or value here. size: bytes, as decoded.
CREATE TABLE IF NOT EXISTS evidence_rejects
(
    received_at DateTime64(9, 'UTC'),
    emitter LowCardinality(String),
    boot LowCardinality(String),
    seq Nullable(Int64),
    reason LowCardinality(String),
    unknown_attributes UInt32,
    size UInt32
)
ENGINE = MergeTree
ORDER BY received_at
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Under which token a boot of an emitter first posted. The earliest row of a boot holds.
CREATE TABLE IF NOT EXISTS claims
(
    emitter String,
    boot String,
    token_id String,
    first_seen DateTime64(9, 'UTC')
)
ENGINE = MergeTree
ORDER BY (emitter, boot, first_seen)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- Facts that came with two or more contents: each content. Empty unless an emitter contradicts itself.
CREATE TABLE IF NOT EXISTS contradictions
(
    emitter LowCardinality(String),
    boot LowCardinality(String),
    seq Int64,
    content_hash UInt64
)
ENGINE = ReplacingMergeTree
ORDER BY (emitter, boot, seq, content_hash)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;

-- What a span says, read and judged by the contract.
CREATE MATERIALIZED VIEW IF NOT EXISTS decode TO decoded AS
WITH
[
    'pagewitness.node.config/pagewitness.seq', 'pagewitness.node.config/pagewitness.node.id',
    'pagewitness.node.config/pagewitness.node.role', 'pagewitness.node.config/pagewitness.rank',
    'pagewitness.node.config/pagewitness.ranks', 'pagewitness.node.config/pagewitness.engine',
    'pagewitness.node.config/pagewitness.engine.version', 'pagewitness.node.config/gen_ai.request.model',
    'pagewitness.node.config/pagewitness.context.tokens', 'pagewitness.node.config/pagewitness.pool.tokens',
    'pagewitness.node.config/pagewitness.input.limit', 'pagewitness.node.config/pagewitness.page.size',
    'pagewitness.node.config/pagewitness.kv.dtype', 'pagewitness.node.config/pagewitness.kv.layers',
    'pagewitness.node.config/pagewitness.transfer.backend', 'pagewitness.node.config/pagewitness.prefix_cache',
    'pagewitness.node.config/pagewitness.tier', 'pagewitness.node.config/pagewitness.hooks.attached',
    'pagewitness.node.config/pagewitness.hooks.missing', 'pagewitness.node.config/pagewitness.config.fingerprint',
    'pagewitness.request.admission/pagewitness.seq', 'pagewitness.request.admission/pagewitness.leg.ordinal',
    'pagewitness.request.admission/tenant.id', 'pagewitness.request.admission/pagewitness.tenant.key',
    'pagewitness.request.admission/pagewitness.traffic', 'pagewitness.request.admission/pagewitness.admission.state',
    'pagewitness.request.admission/pagewitness.admission.reason',
    'pagewitness.request.admission/pagewitness.tokens.need', 'pagewitness.request.admission/pagewitness.input.limit',
    'pagewitness.request.admission/pagewitness.context.tokens', 'pagewitness.request.admission/pagewitness.room',
    'pagewitness.request.admission/pagewitness.rid', 'pagewitness.request.admission/http.response.status_code',
    'pagewitness.transfer/pagewitness.seq', 'pagewitness.transfer/pagewitness.leg.ordinal',
    'pagewitness.transfer/tenant.id', 'pagewitness.transfer/pagewitness.tenant.key',
    'pagewitness.transfer/pagewitness.traffic', 'pagewitness.transfer/pagewitness.transfer.side',
    'pagewitness.transfer/pagewitness.transfer.status', 'pagewitness.transfer/pagewitness.room',
    'pagewitness.transfer/pagewitness.transfer.session', 'pagewitness.transfer/pagewitness.transfer.destination',
    'pagewitness.transfer/pagewitness.pages.start', 'pagewitness.transfer/pagewitness.pages.length',
    'pagewitness.transfer/pagewitness.page.count', 'pagewitness.transfer/pagewitness.prefix.tokens',
    'pagewitness.transfer/pagewitness.prompt.tokens', 'pagewitness.transfer/pagewitness.chunk.page',
    'pagewitness.transfer/pagewitness.chunk.tokens', 'pagewitness.transfer/pagewitness.sender.pages',
    'pagewitness.transfer/pagewitness.slot', 'pagewitness.page.read/pagewitness.seq',
    'pagewitness.page.read/pagewitness.leg.ordinal', 'pagewitness.page.read/tenant.id',
    'pagewitness.page.read/pagewitness.tenant.key', 'pagewitness.page.read/pagewitness.traffic',
    'pagewitness.page.read/pagewitness.read.phase', 'pagewitness.page.read/pagewitness.read.tokens',
    'pagewitness.page.read/pagewitness.row', 'pagewitness.page.read/pagewitness.row_generation',
    'pagewitness.page.release/pagewitness.seq', 'pagewitness.page.release/pagewitness.leg.ordinal',
    'pagewitness.page.release/tenant.id', 'pagewitness.page.release/pagewitness.tenant.key',
    'pagewitness.page.release/pagewitness.traffic', 'pagewitness.page.release/pagewitness.release.mode',
    'pagewitness.page.release/pagewitness.pages.start', 'pagewitness.page.release/pagewitness.pages.length',
    'pagewitness.page.release/pagewitness.pages.complete', 'pagewitness.page.release/pagewitness.prefix.tokens',
    'pagewitness.page.release/pagewitness.written.start', 'pagewitness.page.release/pagewitness.written.end',
    'pagewitness.response/pagewitness.seq', 'pagewitness.response/pagewitness.leg.ordinal',
    'pagewitness.response/tenant.id', 'pagewitness.response/pagewitness.tenant.key',
    'pagewitness.response/pagewitness.traffic', 'pagewitness.response/pagewitness.finish',
    'pagewitness.response/http.response.status_code', 'pagewitness.response/gen_ai.usage.input_tokens',
    'pagewitness.response/gen_ai.usage.output_tokens', 'pagewitness.response/pagewitness.tokens_delivered',
    'pagewitness.request.end/pagewitness.seq', 'pagewitness.request.end/pagewitness.leg.ordinal',
    'pagewitness.request.end/tenant.id', 'pagewitness.request.end/pagewitness.tenant.key',
    'pagewitness.request.end/pagewitness.traffic', 'pagewitness.request.end/pagewitness.end.state',
    'pagewitness.request.end/pagewitness.leg.facts', 'pagewitness.request.end/pagewitness.transfer.destination',
    'pagewitness.request.end/pagewitness.queued.pages', 'pagewitness.request.end/pagewitness.queued.tokens',
    'pagewitness.emitter/pagewitness.seq', 'pagewitness.emitter/pagewitness.subject.emitter',
    'pagewitness.emitter/pagewitness.subject.boot', 'pagewitness.emitter/pagewitness.seq.high_water',
    'pagewitness.emitter/pagewitness.drops', 'pagewitness.emitter/pagewitness.hook.errors',
    'pagewitness.emitter/pagewitness.attested', 'pagewitness.emitter/pagewitness.close'
] AS place_names,
[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60,
    61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89,
    90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101
] AS place_numbers,
[
    'pagewitness.seq', 'pagewitness.node.id', 'pagewitness.node.role', 'pagewitness.rank', 'pagewitness.ranks',
    'pagewitness.engine', 'pagewitness.engine.version', 'gen_ai.request.model', 'pagewitness.context.tokens',
    'pagewitness.pool.tokens', 'pagewitness.input.limit', 'pagewitness.page.size', 'pagewitness.kv.dtype',
    'pagewitness.kv.layers', 'pagewitness.transfer.backend', 'pagewitness.prefix_cache', 'pagewitness.tier',
    'pagewitness.hooks.attached', 'pagewitness.hooks.missing', 'pagewitness.config.fingerprint', 'pagewitness.seq',
    'pagewitness.leg.ordinal', 'tenant.id', 'pagewitness.tenant.key', 'pagewitness.traffic',
    'pagewitness.admission.state', 'pagewitness.admission.reason', 'pagewitness.tokens.need', 'pagewitness.input.limit',
    'pagewitness.context.tokens', 'pagewitness.room', 'pagewitness.rid', 'http.response.status_code', 'pagewitness.seq',
    'pagewitness.leg.ordinal', 'tenant.id', 'pagewitness.tenant.key', 'pagewitness.traffic',
    'pagewitness.transfer.side', 'pagewitness.transfer.status', 'pagewitness.room', 'pagewitness.transfer.session',
    'pagewitness.transfer.destination', 'pagewitness.pages.start', 'pagewitness.pages.length', 'pagewitness.page.count',
    'pagewitness.prefix.tokens', 'pagewitness.prompt.tokens', 'pagewitness.chunk.page', 'pagewitness.chunk.tokens',
    'pagewitness.sender.pages', 'pagewitness.slot', 'pagewitness.seq', 'pagewitness.leg.ordinal', 'tenant.id',
    'pagewitness.tenant.key', 'pagewitness.traffic', 'pagewitness.read.phase', 'pagewitness.read.tokens',
    'pagewitness.row', 'pagewitness.row_generation', 'pagewitness.seq', 'pagewitness.leg.ordinal', 'tenant.id',
    'pagewitness.tenant.key', 'pagewitness.traffic', 'pagewitness.release.mode', 'pagewitness.pages.start',
    'pagewitness.pages.length', 'pagewitness.pages.complete', 'pagewitness.prefix.tokens', 'pagewitness.written.start',
    'pagewitness.written.end', 'pagewitness.seq', 'pagewitness.leg.ordinal', 'tenant.id', 'pagewitness.tenant.key',
    'pagewitness.traffic', 'pagewitness.finish', 'http.response.status_code', 'gen_ai.usage.input_tokens',
    'gen_ai.usage.output_tokens', 'pagewitness.tokens_delivered', 'pagewitness.seq', 'pagewitness.leg.ordinal',
    'tenant.id', 'pagewitness.tenant.key', 'pagewitness.traffic', 'pagewitness.end.state', 'pagewitness.leg.facts',
    'pagewitness.transfer.destination', 'pagewitness.queued.pages', 'pagewitness.queued.tokens', 'pagewitness.seq',
    'pagewitness.subject.emitter', 'pagewitness.subject.boot', 'pagewitness.seq.high_water', 'pagewitness.drops',
    'pagewitness.hook.errors', 'pagewitness.attested', 'pagewitness.close'
] AS place_attributes,
[
    3, 1, 1, 3, 3, 1, 1, 1, 3, 3, 3, 3, 1, 3, 1, 2, 1, 5, 5, 1, 3, 3, 1, 1, 1, 1, 1, 3, 3, 3, 3, 1, 3, 3, 3, 1, 1, 1, 1,
    1, 3, 1, 1, 5, 5, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 3, 3, 3, 3, 3, 1, 1, 1, 1, 5, 5, 2, 3, 3, 3, 3, 3, 1, 1, 1,
    1, 3, 3, 3, 3, 3, 3, 1, 1, 1, 1, 3, 1, 3, 3, 3, 1, 1, 3, 3, 3, 3, 1
] AS place_kinds,
[
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
] AS place_item_kinds,
[
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
    0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0
] AS place_least,
[
    1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0,
    0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0,
    0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0
] AS place_takes_text,
[
    0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0,
    0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0
] AS place_takes_hex,
[
    'pagewitness.node.config', 'pagewitness.request.admission', 'pagewitness.transfer', 'pagewitness.page.read',
    'pagewitness.page.release', 'pagewitness.response', 'pagewitness.request.end', 'pagewitness.emitter'
] AS span_names,
[
    0, 26, 40, 58, 67, 79, 89, 101
] AS span_variant_place,
[
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], [21, 22, 23, 25, 26, 27, 28, 29, 30, 32],
    [34, 35, 36, 38, 39, 40], [53, 54, 55, 57, 58, 59], [62, 63, 64, 66, 67, 68, 69, 70, 71, 72, 73], [74, 75, 76, 78,
    79, 81, 82, 83], [84, 85, 86, 88, 89, 90, 92, 93], [94, 95, 96, 97, 98, 99, 100, 101]
] AS span_requires,
[
    'pagewitness.request.admission/rejected', 'pagewitness.transfer/reserved', 'pagewitness.transfer/destination',
    'pagewitness.transfer/queued', 'pagewitness.transfer/committed'
] AS variant_names,
[
    [33], [41, 42, 43, 44, 45, 46, 47, 48], [41, 42, 43, 46, 47], [44, 45, 46, 49, 50, 51], [48]
] AS variant_requires,
groups AS (
    SELECT received_at, arrayJoin(resource_spans) AS group FROM inbox
),
spans AS (
    SELECT
        received_at,
        group.resource.attributes AS about,
        about.value.string_value[indexOf(about.key, 'service.instance.id')] AS emitter,
        about.value.string_value[indexOf(about.key, 'pagewitness.boot')] AS boot,
        about.value.int_value[indexOf(about.key, 'pagewitness.contract')] AS contract,
        arrayJoin(arrayFlatten(group.scope_spans.spans)) AS one
    FROM groups
),
-- The attributes of a span, in lists side by side. `places` says where in the contract each stands; 0 is nowhere.
placed AS (
    SELECT
        received_at, emitter, boot, contract,
        one.name AS span,
        one.trace_id AS trace_id,
        one.start_time_unix_nano AS start,
        one.attributes.key AS keys,
        one.attributes.value AS values,
        CAST(values.value, 'Array(Int8)') AS kinds,
        values.int_value AS ints,
        values.bool_value AS flags,
        values.string_value AS words,
        CAST(values.array_value.values.value, 'Array(Array(Int8))') AS item_kinds,
        values.array_value.values.int_value AS int_lists,
        values.array_value.values.string_value AS word_lists,
        arrayMap(key -> transform(concat(span, '/', key), place_names, place_numbers, 0), keys) AS places,
        -- an attribute that may not be there has no name from here on, so no column can ask for it
        arrayMap((key, place) -> if(place = 0, '', key), keys, places) AS names,
        indexOf(span_names, span) AS span_number
    FROM spans
),
judged AS (
    SELECT
        received_at, emitter, boot, contract, span, span_number, trace_id, start,
        keys, names, ints, flags, words, int_lists, word_lists, places,
        arrayMap((place, key, kind, item_kind, number, word, word_list) -> multiIf(
            place = 0, '',
            kind != place_kinds[place] OR countEqual(item_kind, place_item_kinds[place]) != length(item_kind),
            'wrong_type',
            number < place_least[place]
            OR length(word) > 512
            OR arrayExists(item -> length(item) > 512, word_list)
            OR NOT (place_takes_text[place]
                OR concat(key, '=', word) IN (
                    'tenant.id=unattributed', 'pagewitness.node.role=prefill', 'pagewitness.node.role=decode',
                    'pagewitness.node.role=unified', 'pagewitness.tier=control', 'pagewitness.tier=exact',
                    'pagewitness.traffic=customer', 'pagewitness.traffic=internal', 'pagewitness.traffic=researcher',
                    'pagewitness.traffic=canary', 'pagewitness.admission.state=admitted',
                    'pagewitness.admission.state=rejected', 'pagewitness.admission.reason=none',
                    'pagewitness.admission.reason=input_too_long', 'pagewitness.admission.reason=grammar',
                    'pagewitness.admission.reason=no_room', 'pagewitness.admission.reason=multimodal',
                    'pagewitness.admission.reason=unsupported', 'pagewitness.admission.reason=other',
                    'pagewitness.transfer.side=receive', 'pagewitness.transfer.side=send',
                    'pagewitness.transfer.status=reserved', 'pagewitness.transfer.status=destination',
                    'pagewitness.transfer.status=queued', 'pagewitness.transfer.status=committed',
                    'pagewitness.transfer.status=refused', 'pagewitness.read.phase=first',
                    'pagewitness.read.phase=last', 'pagewitness.release.mode=immediate',
                    'pagewitness.release.mode=deferred', 'pagewitness.release.mode=timeout',
                    'pagewitness.release.mode=evict', 'pagewitness.release.mode=retract', 'pagewitness.finish=stop',
                    'pagewitness.finish=length', 'pagewitness.finish=abort', 'pagewitness.finish=other',
                    'pagewitness.end.state=finished', 'pagewitness.end.state=aborted', 'pagewitness.end.state=rejected',
                    'pagewitness.end.state=failed', 'pagewitness.end.state=retracted', 'pagewitness.close=open',
                    'pagewitness.close=clean', 'pagewitness.close=crashed'
                )
                OR (place_takes_hex[place] AND length(word) = 32 AND lower(hex(unhex(word))) = word)),
            'bad_value',
            ''), places, keys, kinds, item_kinds, ints, words, word_lists) AS faults,
        arrayFirstIndex(fault -> fault != '', faults) AS fault,
        words[indexOf(places, span_variant_place[span_number])] AS variant,
        arrayExcept(
            arrayConcat(
                span_requires[span_number],
                variant_requires[indexOf(variant_names, concat(span, '/', variant))]),
            places) AS missing,
        int_lists[indexOf(names, 'pagewitness.pages.start')] AS starts_0,
        int_lists[indexOf(names, 'pagewitness.pages.length')] AS lengths_0,
        length(starts_0) != length(lengths_0)
            OR arrayExists(page -> page < 0 OR page > 2147483647, starts_0)
            OR arrayExists(pages -> pages < 1 OR pages > 10000000, lengths_0)
            OR arraySum(lengths_0) > 10000000 AS bad_runs_0,
        -- In whatever order the attributes came, and without those that are not stored. SipHash, because facts are told
        -- apart by it, and nobody must be able to make one that passes for another.
        sipHash64(emitter, boot, contract, span, trace_id, start, arraySort(arrayFilter(hash -> hash != 0, arrayMap(
            (place, key, number, flag, word, int_list, word_list) ->
                if(place = 0, 0, sipHash64(key, number, flag, word, int_list, word_list)),
            places, keys, ints, flags, words, int_lists, word_lists)))) AS content_hash
    FROM placed
)
SELECT
    fromUnixTimestamp64Nano(toInt64(received_at), 'UTC') AS received_at,
    emitter, boot, contract, span,
    lower(hex(trace_id)) AS uid,
    fromUnixTimestamp64Nano(toInt64(start), 'UTC') AS time,
    mapFromArrays(names, CAST(ints, 'Array(Nullable(Int64))')) AS ints,
    mapFromArrays(names, CAST(flags, 'Array(Nullable(Bool))')) AS flags,
    mapFromArrays(names, words) AS words,
    mapFromArrays(names, int_lists) AS int_lists,
    mapFromArrays(names, word_lists) AS word_lists,
    content_hash,
    multiIf(
        emitter = '', 'missing_attribute:service.instance.id',
        boot = '', 'missing_attribute:pagewitness.boot',
        span_number = 0, 'unknown_span',
        length(trace_id) != 16 OR trace_id = unhex('00000000000000000000000000000000'), 'bad_value:trace_id',
        start = 0 OR start > 9223372036854775807, 'bad_value:start_time_unix_nano',
        length(arrayDistinct(keys)) != length(keys), 'duplicate_attribute',
        fault > 0, concat(faults[fault], ':', names[fault]),
        notEmpty(missing), concat('missing_attribute:', place_attributes[missing[1]]),
        bad_runs_0, 'bad_value:pagewitness.pages',
        '') AS reason,
    countEqual(places, 0) AS unknown_attributes,
    byteSize(keys, ints, flags, words, int_lists, word_lists) AS size
FROM judged;

-- Good spans, each attribute in its column, unless they are there already. (`decoded` is the block being inserted.)
CREATE MATERIALIZED VIEW IF NOT EXISTS keep TO evidence AS
SELECT
    received_at,
    emitter,
    boot,
    contract,
    span,
    uid,
    time,
    ints['pagewitness.seq'] AS seq,
    words['pagewitness.node.id'] AS node_id,
    words['pagewitness.node.role'] AS node_role,
    ints['pagewitness.rank'] AS rank,
    ints['pagewitness.ranks'] AS ranks,
    words['pagewitness.engine'] AS engine,
    words['pagewitness.engine.version'] AS engine_version,
    words['gen_ai.request.model'] AS gen_ai_request_model,
    ints['pagewitness.context.tokens'] AS context_tokens,
    ints['pagewitness.pool.tokens'] AS pool_tokens,
    ints['pagewitness.input.limit'] AS input_limit,
    ints['pagewitness.page.size'] AS page_size,
    words['pagewitness.kv.dtype'] AS kv_dtype,
    ints['pagewitness.kv.layers'] AS kv_layers,
    words['pagewitness.transfer.backend'] AS transfer_backend,
    flags['pagewitness.prefix_cache'] AS prefix_cache,
    words['pagewitness.tier'] AS tier,
    word_lists['pagewitness.hooks.attached'] AS hooks_attached,
    word_lists['pagewitness.hooks.missing'] AS hooks_missing,
    words['pagewitness.config.fingerprint'] AS config_fingerprint,
    ints['pagewitness.leg.ordinal'] AS leg_ordinal,
    words['tenant.id'] AS tenant_id,
    words['pagewitness.tenant.key'] AS tenant_key,
    words['pagewitness.traffic'] AS traffic,
    words['pagewitness.admission.state'] AS admission_state,
    words['pagewitness.admission.reason'] AS admission_reason,
    ints['pagewitness.tokens.need'] AS tokens_need,
    ints['pagewitness.room'] AS room,
    words['pagewitness.rid'] AS rid,
    ints['http.response.status_code'] AS http_response_status_code,
    words['pagewitness.transfer.side'] AS transfer_side,
    words['pagewitness.transfer.status'] AS transfer_status,
    words['pagewitness.transfer.session'] AS transfer_session,
    words['pagewitness.transfer.destination'] AS transfer_destination,
    int_lists['pagewitness.pages.start'] AS pages_start,
    int_lists['pagewitness.pages.length'] AS pages_length,
    ints['pagewitness.page.count'] AS page_count,
    ints['pagewitness.prefix.tokens'] AS prefix_tokens,
    ints['pagewitness.prompt.tokens'] AS prompt_tokens,
    ints['pagewitness.chunk.page'] AS chunk_page,
    ints['pagewitness.chunk.tokens'] AS chunk_tokens,
    ints['pagewitness.sender.pages'] AS sender_pages,
    ints['pagewitness.slot'] AS slot,
    words['pagewitness.read.phase'] AS read_phase,
    ints['pagewitness.read.tokens'] AS read_tokens,
    ints['pagewitness.row'] AS row,
    ints['pagewitness.row_generation'] AS row_generation,
    words['pagewitness.release.mode'] AS release_mode,
    flags['pagewitness.pages.complete'] AS pages_complete,
    ints['pagewitness.written.start'] AS written_start,
    ints['pagewitness.written.end'] AS written_end,
    words['pagewitness.finish'] AS finish,
    ints['gen_ai.usage.input_tokens'] AS gen_ai_usage_input_tokens,
    ints['gen_ai.usage.output_tokens'] AS gen_ai_usage_output_tokens,
    ints['pagewitness.tokens_delivered'] AS tokens_delivered,
    words['pagewitness.end.state'] AS end_state,
    ints['pagewitness.leg.facts'] AS leg_facts,
    ints['pagewitness.queued.pages'] AS queued_pages,
    ints['pagewitness.queued.tokens'] AS queued_tokens,
    words['pagewitness.subject.emitter'] AS subject_emitter,
    words['pagewitness.subject.boot'] AS subject_boot,
    ints['pagewitness.seq.high_water'] AS seq_high_water,
    ints['pagewitness.drops'] AS drops,
    ints['pagewitness.hook.errors'] AS hook_errors,
    ints['pagewitness.attested'] AS attested,
    words['pagewitness.close'] AS close,
    content_hash
FROM decoded
WHERE reason = '' AND content_hash NOT IN (
    SELECT content_hash FROM evidence
    WHERE (emitter, boot, seq) IN (SELECT emitter, boot, assumeNotNull(ints['pagewitness.seq']) FROM decoded WHERE reason = '')
)
LIMIT 1 BY content_hash;

-- Every span of the insert, and what became of it.
CREATE MATERIALIZED VIEW IF NOT EXISTS list TO arrivals AS
SELECT received_at, emitter, boot, nullIf(ints['pagewitness.seq'], 0) AS seq, reason, unknown_attributes, size, content_hash
FROM decoded;

-- Evidence, each fact once. `contents` is 1, or 2 for a fact that came with two contents or more: a contradiction, of
-- which the content with the least hash is shown, in whatever order they came.
CREATE VIEW IF NOT EXISTS facts AS
SELECT
    received_at,
    emitter,
    boot,
    contract,
    span,
    uid,
    time,
    seq,
    node_id,
    node_role,
    rank,
    ranks,
    engine,
    engine_version,
    gen_ai_request_model,
    context_tokens,
    pool_tokens,
    input_limit,
    page_size,
    kv_dtype,
    kv_layers,
    transfer_backend,
    prefix_cache,
    tier,
    hooks_attached,
    hooks_missing,
    config_fingerprint,
    leg_ordinal,
    tenant_id,
    tenant_key,
    traffic,
    admission_state,
    admission_reason,
    tokens_need,
    room,
    rid,
    http_response_status_code,
    transfer_side,
    transfer_status,
    transfer_session,
    transfer_destination,
    pages_start,
    pages_length,
    page_count,
    prefix_tokens,
    prompt_tokens,
    chunk_page,
    chunk_tokens,
    sender_pages,
    slot,
    read_phase,
    read_tokens,
    row,
    row_generation,
    release_mode,
    pages_complete,
    written_start,
    written_end,
    finish,
    gen_ai_usage_input_tokens,
    gen_ai_usage_output_tokens,
    tokens_delivered,
    end_state,
    leg_facts,
    queued_pages,
    queued_tokens,
    subject_emitter,
    subject_boot,
    seq_high_water,
    drops,
    hook_errors,
    attested,
    close,
    content_hash,
    if(content_hash IN (SELECT content_hash FROM contradictions), 2, 1) AS contents
FROM evidence
WHERE content_hash NOT IN (
    SELECT arrayJoin(arraySlice(arraySort(groupUniqArray(content_hash)), 2)) FROM contradictions
    GROUP BY emitter, boot, seq
);
