"""Answers: which responses of which tenant were affected, whose data was exposed, and how sure that is.

The flow of one question: the command (:mod:`notify.cli`) -> its client (:mod:`notify.client`) -> the service's API
(:mod:`notify.api`) -> the queries, each bound to one tenant (:mod:`notify.tenant_store`) -> an answer in the documented
shape (:mod:`notify.answers`) -> a table, JSON, CSV or NDJSON (:mod:`notify.render`).
"""
