SELECT
    'committed' AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    coalesce(reserved_at, started) AS time,
    covered_to AS tokens_from,
    prompt_tokens AS tokens_to
FROM request_rollup
WHERE (committed OR read_tokens IS NOT NULL) AND covered_to < prompt_tokens
    AND prefill_uid != '' -- without a prefill node there was no transfer, and engines check their health like that

UNION ALL

SELECT
    'stalled' AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    reserved_at AS time,
    covered_to AS tokens_from,
    prompt_tokens AS tokens_to
FROM request_rollup
WHERE reserved_at IS NOT NULL
    AND NOT committed AND NOT refused AND read_tokens IS NULL
    AND prefill_ended IS NOT NULL
    AND coalesce(covered_to, 0) < prompt_tokens
    AND coalesce(decode_ended, seen_to) >= greatest(reserved_at, prefill_ended_by) + toIntervalSecond({stall_seconds:Int64})

UNION ALL

SELECT
    'early' AS variant,
    response_uid AS subject,
    response_uid,
    tenant,
    tenant_key,
    coalesce(reserved_at, started) AS time,
    covered_to AS tokens_from,
    prompt_tokens AS tokens_to
FROM request_rollup
WHERE took_early
