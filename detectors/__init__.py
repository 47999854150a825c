"""Detection: evidence in, findings and verdicts out.

The flow of one pass (:mod:`detectors.runner`): which requests changed -> their legs (:mod:`detectors.legs`) -> joined
(:mod:`detectors.joins`) -> what the transfer covered (:mod:`detectors.coverage`) -> one rollup row a request
(:mod:`detectors.rollup`) -> the rules (``rules/<name>/rule.sql``) -> donors of what was read (:mod:`detectors.donors`)
-> a verdict (:mod:`detectors.verdicts`) -> the store (:mod:`detectors.results`).
"""
