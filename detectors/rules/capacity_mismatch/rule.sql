SELECT
    'input_limit' AS variant,
    concat(prefill.node, '|', decode.node) AS subject,
    '' AS response_uid,
    '' AS tenant,
    '' AS tenant_key,
    greatest(prefill.time, decode.time) AS time,
    prefill.input_limit AS tokens_from,
    decode.input_limit AS tokens_to
FROM (SELECT DISTINCT prefill_node, decode_node FROM request_rollup WHERE prefill_uid != '') AS pair
INNER JOIN (SELECT node, min(input_limit) AS input_limit, min(nodes.time) AS time FROM nodes GROUP BY node) AS prefill
    ON prefill.node = pair.prefill_node
INNER JOIN (SELECT node, max(input_limit) AS input_limit, min(nodes.time) AS time FROM nodes GROUP BY node) AS decode
    ON decode.node = pair.decode_node
WHERE decode.input_limit > prefill.input_limit
