"""The documented shapes of what is said of incidents (docs/incidents.md): the operator's, not customers'.

The rules of notify/answers.py hold: a field is added without a new version, a changed meaning needs one.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from notify.answers import Counts, Effect, Evidence, Moment, Scope, Shape, TenantRef, Window

LeftOutBy = Literal["traffic", "tenant", "node", "effect", "rule", "scope"]


class Change(Shape):
    """What a definition is to be. None: as it was, or the default. An empty list lets everything through."""

    from_: str | None = Field(None, alias="from")
    to: str | None = None
    models: list[str] | None = None
    rules: list[str] | None = None
    effects: list[str] | None = None
    scopes: list[str] | None = None
    exclude_traffic: list[str] | None = None
    exclude_tenants: list[str] | None = Field(None, description="By name.")
    nodes: list[str] | None = None
    exclude_nodes: list[str] | None = None
    note: str | None = None
    as_of: Literal["now"] | None = None


class Frozen(Shape):
    """Up to where evidence and verdicts count."""

    version: int = Field(description="Of the newest verdict that counts: ns by the clock of the service.")
    cursor: Moment = Field(description="Arrival of the newest fact that counts, cut to milliseconds.")
    judged_at: Moment = Field(description="When the detection pass began that judged it.")
    watermark: Moment | None
    evidence_starts: Moment | None
    rule_set: str
    rules_digest: str = Field(description="Tells one version of the rules from another.")
    contract: int = Field(description="Version of the evidence contract.")


class IncidentAnswer(Shape):
    """One revision of an incident."""

    schema_: Literal["pagewitness.incident/1"] = Field(alias="schema")
    view: Literal["operator"]
    name: str
    revision: int
    defined_at: Moment
    note: str
    window: Window
    models: list[str] = Field(description="Empty: all. So are rules and nodes.")
    rules: list[str]
    effects: list[Effect]
    scopes: list[Scope]
    excluded_traffic: list[str]
    excluded_tenants: list[TenantRef]
    nodes: list[str]
    excluded_nodes: list[str]
    as_of: Frozen
    digest: str = Field(description="Of the affected responses, when it was frozen.")


class DefinedAnswer(Shape):
    """What was written."""

    schema_: Literal["pagewitness.incident_defined/1"] = Field(alias="schema")
    view: Literal["operator"]
    incident: IncidentAnswer
    previous: IncidentAnswer | None = Field(description="The revision that this one follows.")
    affected: int = Field(description="Affected responses, derived ones included.")


class IncidentsAnswer(Shape):
    """The newest revision of every incident, by name."""

    schema_: Literal["pagewitness.incidents/1"] = Field(alias="schema")
    view: Literal["operator"]
    incidents: list[IncidentAnswer]


class Share(Shape):
    """What of an incident belongs to one tenant, node or day."""

    affected: int = Field(description="Primary ones: `derived` is counted apart.")
    derived: int
    tokens_delivered: int = Field(description="Of both; what is not known counts as 0.")
    unknown: int
    pending: int


class TenantShare(Share):
    """Of one tenant's responses."""

    tenant: TenantRef


class NodeShare(Share):
    """Of the responses that one emitter recorded."""

    node: str


class DayShare(Share):
    """Of the responses that started on one day, UTC."""

    day: str


class DonorShare(Shape):
    """What was read of one tenant's KV by affected responses of others."""

    tenant: TenantRef
    read_by: int = Field(description="Affected responses that read it.")
    own_responses: int = Field(description="Responses of its own whose KV they read.")


class RuleShare(Shape):
    """Responses that one rule names. A response can have several."""

    rule: str
    effect: str
    affected: int
    at_risk: int = Field(description="Not affected, and this rule says that it could have been.")


class LeftOut(Shape):
    """Responses of the window that are none of the incident, each counted under the first reason that holds."""

    by: LeftOutBy
    what: str = Field(description="The label, scope, rules or node; of a tenant, its name or pseudonym.")
    responses: int
    violations: int = Field(description="Those among them that read foreign KV.")
    unsure: int = Field(description="Those among them that are unknown or pending.")


class IncidentRow(Shape):
    """One affected response."""

    response_id: str
    tenant: TenantRef
    started: Moment
    ended: Moment | None
    model: str
    node: str
    traffic: str
    scope: Scope
    derived: bool
    rules: list[str]
    tokens_delivered: int | None
    foreign_slots: int
    http_status: int | None
    finish: str


class IncidentAffectedAnswer(Shape):
    """What an incident comes to."""

    schema_: Literal["pagewitness.incident_affected/1"] = Field(alias="schema")
    view: Literal["operator"]
    incident: IncidentAnswer
    affected: int
    derived: int = Field(description="Affected too, and counted apart: they reused KV computed over foreign pages.")
    at_risk: int = Field(description="Not affected, with a finding of another effect that was asked for.")
    tokens_delivered: int
    by_tenant: list[TenantShare]
    by_rule: list[RuleShare]
    by_node: list[NodeShare]
    by_day: list[DayShare]
    donors: list[DonorShare]
    left_out: list[LeftOut]
    counts: Counts = Field(description="Coverage: every response of the window that is not left out.")
    reasons: dict[str, int] = Field(description="Why unknown or pending; one response can have several reasons.")
    evidence: Evidence
    responses: list[IncidentRow]
    uids_digest: str = Field(description="SHA-256 of the sorted response ids, each followed by a line feed.")
    digest: str
    reproduced: bool = Field(description="The digest is the one of when it was frozen.")
    exit_code: int


class Moved(Shape):
    """A response that a change would add or remove."""

    response_id: str
    tenant: TenantRef
    started: Moment


class Unsure(Shape):
    """Unknown or pending responses of one tenant."""

    tenant: TenantRef
    unknown: int
    pending: int
    reasons: dict[str, int]


class PreviewAnswer(Shape):
    """What a changed definition would come to. Nothing is written."""

    schema_: Literal["pagewitness.incident_preview/1"] = Field(alias="schema")
    view: Literal["operator"]
    incident: IncidentAnswer
    changed: list[str] = Field(description="Parts of the definition that differ; `as_of` where it is frozen anew.")
    before: int = Field(description="Affected responses, derived ones included.")
    after: int
    added: list[Moved]
    removed: list[Moved]
    counts: Counts = Field(description="Coverage under the changed definition.")
    reasons: dict[str, int]
    unsure: list[Unsure]
    left_out: list[LeftOut]
    evidence: Evidence
    digest: str = Field(description="What a revision with this definition would have.")
    exit_code: int
