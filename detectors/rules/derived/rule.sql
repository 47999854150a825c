SELECT
    '' AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    coalesce(reserved_at, started) AS time,
    tainted_from AS tokens_from,
    tainted_to AS tokens_to
FROM request_rollup
WHERE tainted_from IS NOT NULL
