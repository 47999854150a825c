SELECT
    '' AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    coalesce(reserved_at, started) AS time,
    covered_to AS tokens_from,
    least(read_tokens, prompt_tokens) AS tokens_to
FROM request_rollup
WHERE read_tokens IS NOT NULL AND prompt_tokens IS NOT NULL
    AND covered_to < least(read_tokens, prompt_tokens)
