SELECT
    arrayJoin(reused_identities) AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    coalesce(reserved_at, started) AS time,
    CAST(NULL AS Nullable(Int64)) AS tokens_from,
    CAST(NULL AS Nullable(Int64)) AS tokens_to
FROM request_rollup
