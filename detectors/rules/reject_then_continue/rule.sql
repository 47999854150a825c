SELECT
    '' AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    started AS time,
    CAST(NULL AS Nullable(Int64)) AS tokens_from,
    CAST(NULL AS Nullable(Int64)) AS tokens_to
FROM request_rollup
WHERE notEmpty(progress_after_reject)
