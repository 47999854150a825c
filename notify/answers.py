"""The documented shapes of answers: what the API returns and the commands print as JSON (docs/api-affected.md).

A field is added without a new version; one that changes meaning or goes away needs a new version in the `schema` name.
Times are ISO 8601 in UTC with milliseconds. Counts are of responses unless the name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

AFFECTED_SCHEMA: Literal["pagewitness.affected/1"] = "pagewitness.affected/1"

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
Scope = Literal["cross_tenant", "unattributed", "internal_donor", "same_tenant", "no_writer"]
Verdict = Literal["violation", "clean", "unknown", "pending"]
Effect = Literal["contamination", "exposure_risk", "posture"]

VERDICTS: tuple[Verdict, ...] = ("violation", "clean", "unknown", "pending")
SCOPES: tuple[Scope, ...] = ("cross_tenant", "unattributed", "internal_donor", "same_tenant", "no_writer")
DEFAULT_SCOPES: tuple[Scope, ...] = ("cross_tenant", "unattributed")
"""Foreign KV that nobody vouches for may be another tenant's: listed, and named as what it is."""


class Shape(BaseModel):
    """A part of an answer. A reader takes no offence at a field that a newer service added."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True, defer_build=True)


class Window(Shape):
    """The responses asked about: those in progress at any time in [from, to). None: no bound on that side."""

    from_: Moment | None = Field(alias="from")
    to: Moment | None


class RecipientRow(Shape):
    """One response of the tenant that read foreign KV."""

    response_id: str = Field(description="The response: 32 hex digits.")
    started: Moment
    ended: Moment | None = Field(description="None while it runs, or where its end was never seen.")
    model: str
    tokens_delivered: int | None = Field(description="Generated tokens that could reach the client.")
    scope: Scope = Field(description="Whose KV it read, the gravest of what it read.")
    derived: bool = Field(description="It reused KV that was itself computed over foreign pages.")
    other_tenants: int = Field(description="How many other tenants' KV it read.")
    foreign_slots: int = Field(description="Token slots, of every scope, that it read and had not written itself.")
    unattributed_slots: int = Field(description="Those among them that nobody vouches for.")
    rules: list[str] = Field(description="Contamination rules that fired.")
    other_findings: int = Field(description="Findings about it with another effect than contamination.")
    http_status: int | None = Field(description="Status that the engine gave; None where it does not know one.")
    finish: str = Field(description="stop, length, abort, other, or empty where it was never seen.")


class DonorRow(Shape):
    """One response of the tenant whose KV responses of others read."""

    response_id: str
    joined: bool = Field(description="False: the id is of a leg of the tenant that could not be joined to a response.")
    started: Moment | None
    ended: Moment | None
    model: str
    tokens_delivered: int | None = Field(description="Of this response itself.")
    scope: Scope
    derived: bool = Field(description="Every reader read it only through KV that was computed over it.")
    foreign_responses: int = Field(description="How many responses of others read it.")
    foreign_responses_delivered: int = Field(description="How many of those delivered a token, or may have.")


class UnsureRow(Shape):
    """One response of the tenant that may have read foreign KV: nobody can tell, or nobody can yet."""

    response_id: str
    started: Moment
    ended: Moment | None
    model: str
    tokens_delivered: int | None
    verdict: Verdict = Field(description="unknown or pending.")
    reasons: list[str] = Field(description="Why.")
    http_status: int | None
    finish: str


class CsvRow(Shape):
    """A line of CSV where unsure responses are listed too: what an unsure one has nothing to say of is empty."""

    response_id: str
    verdict: Verdict
    reasons: list[str]
    started: Moment
    ended: Moment | None
    model: str
    tokens_delivered: int | None
    scope: Scope | None = None
    derived: bool | None = None
    other_tenants: int | None = None
    foreign_slots: int | None = None
    unattributed_slots: int | None = None
    rules: list[str] = []
    other_findings: int | None = None
    http_status: int | None
    finish: str


class IncidentRef(Shape):
    """The incident that a tenant's answer is restricted to: what of its definition is no other tenant's affair."""

    name: str
    revision: int
    frozen_at: Moment = Field(description="Evidence that arrived later does not count.")
    models: list[str] = Field(description="Empty: all.")
    rules: list[str] = Field(description="Empty: all.")
    excluded_traffic: list[str]
    some_nodes: bool = Field(description="It is about some nodes, not about all.")


class Counts(Shape):
    """Responses in the window by verdict. For a donor: everybody's, because any of them could be the reader."""

    violation: int
    clean: int
    unknown: int
    pending: int


class OtherFindings(Shape):
    """Findings about the tenant's responses in the window that name no affected response."""

    effect: Effect
    rule: str
    count: int = Field(description="Of findings.")


class Evidence(Shape):
    """How sure the answer is."""

    starts: Moment | None = Field(description="Start of evidence: nothing is known of the time before.")
    watermark: Moment | None = Field(description="Everything recorded before it is in; None: no agent ever said so.")
    judged_at: Moment | None = Field(description="When the last detection pass began; None: there was none.")
    clean_for: str = Field(description="What `clean` means here: the rules in force and the tier of recording.")
    complete: bool
    incomplete_because: list[str] = Field(description="A sentence a reason; empty if complete.")


class _Affected(Shape):
    schema_: Literal["pagewitness.affected/1"] = Field(alias="schema")
    tenant: str = Field(description="The name that was asked for.")
    tenant_keys: list[str] = Field(description="Ids of the keys under which the tenant has evidence.")
    incident: IncidentRef | None = Field(description="None: everything in the window, as it stands now.")
    window: Window
    scopes: list[Scope] = Field(description="Scopes that are listed.")
    counts: Counts
    reasons: dict[str, int] = Field(description="Why unknown or pending: responses by reason; one can have several.")
    not_listed: dict[str, int] = Field(description="Of scopes that were not asked for: how many would be listed.")
    unsure: list[UnsureRow] | None = Field(
        description="Role recipient: the unknown and pending ones, listed; None where that was not asked for."
    )
    evidence: Evidence
    exit_code: int = Field(description="What `notify affected` ends with: see docs/exit-codes.md.")


class RecipientAnswer(_Affected):
    """Which responses of the tenant read foreign KV."""

    role: Literal["recipient"]
    responses: list[RecipientRow]
    other_findings: list[OtherFindings]


class DonorAnswer(_Affected):
    """Which responses of the tenant had KV that responses of others read."""

    role: Literal["donor"]
    responses: list[DonorRow]
    foreign_responses: int = Field(description="Distinct responses of others that read KV of those listed.")


AffectedAnswer = Annotated[RecipientAnswer | DonorAnswer, Field(discriminator="role")]


class Finding(Shape):
    """One finding about a response."""

    finding_id: str
    rule: str
    variant: str
    effect: Effect
    severity: str
    time: Moment
    tokens_from: int | None = Field(description="First token position concerned, from 0.")
    tokens_to: int | None = Field(description="One past the last one.")
    detail: str


class ReadRange(Shape):
    """Token positions [tokens_from, tokens_to) of a response that held KV of somebody else."""

    tokens_from: int
    tokens_to: int
    scope: Scope
    via: str = Field(description="stale_page: left in the page. transfer_tail: carried along by a transfer.")


class ResponseAnswer(Shape):
    """One response, for the tenant whose it is."""

    schema_: Literal["pagewitness.response/1"] = Field(alias="schema")
    response_id: str
    prefill_id: str | None = Field(description="Its leg on the prefill node; None where none was joined.")
    verdict: Verdict
    reasons: list[str] = Field(description="Why unknown or pending.")
    clean_for: str
    scope: Scope | None
    derived: bool
    started: Moment
    ended: Moment | None
    model: str
    traffic: str
    input_tokens: int | None
    output_tokens: int | None
    tokens_delivered: int | None
    http_status: int | None
    finish: str
    other_tenants: int
    foreign_slots: int
    unattributed_slots: int
    no_writer_slots: int
    rules: list[str]
    findings: list[Finding]
    ranges: list[ReadRange]
    exit_code: int


class TenantRef(Shape):
    """A tenant in an operator's view: its name where the service knows it."""

    name: str | None
    pseudonym: str = Field(description="Or the word `unattributed`.")
    key: str = Field(description="Id of the key that made the pseudonym; empty when unattributed.")


class OperatorRange(ReadRange):
    """A range as the operator sees it: where it lay, and whose it was."""

    page: int = Field(description="In the pool of the node that read it; -1 where no fact names the page.")
    slot_start: int = Field(description="First slot inside the page.")
    slot_end: int = Field(description="One past the last one.")
    donor: TenantRef | None = Field(description="None where nobody had written the slots.")
    donor_response_id: str = Field(description="Empty where it is not known.")
    donor_rid: str = Field(description="Keyed digest of the donor's request id; empty where it is not known.")


class OperatorResponseAnswer(ResponseAnswer):
    """One response, for the operator: with whose it is, where it ran and whose KV it read. Not for customers."""

    view: Literal["operator"]
    tenant: TenantRef
    emitter: str
    rid: str = Field(description="Keyed digest of the request id that the engine used.")
    reads: list[OperatorRange]


class Pair(Shape):
    """Responses of one tenant that read KV of another."""

    recipient: TenantRef
    donor: TenantRef
    scope: Scope
    responses: int = Field(description="Responses of the recipient.")
    donor_responses: int = Field(description="Responses of the donor whose KV they read.")
    slots: int
    tokens_delivered: int


class PairsAnswer(Shape):
    """Who received whose KV, for the operator."""

    schema_: Literal["pagewitness.pairs/1"] = Field(alias="schema")
    view: Literal["operator"]
    window: Window
    scopes: list[Scope]
    pairs: list[Pair]
    counts: Counts


class TenantRow(Shape):
    """A tenant that the evidence knows."""

    tenant: TenantRef
    counts: Counts
    affected: int = Field(description="Violations that customer lists show by default.")


class TenantsAnswer(Shape):
    """Every tenant of which there are responses, for the operator; unattributed ones are one row."""

    schema_: Literal["pagewitness.tenants/1"] = Field(alias="schema")
    view: Literal["operator"]
    tenants: list[TenantRow]


class OperatorRow(Shape):
    """One response of any tenant."""

    response_id: str
    rid: str = Field(description="Keyed digest of the request id that the engine used.")
    tenant: TenantRef
    started: Moment
    ended: Moment | None
    model: str
    emitter: str
    verdict: Verdict
    scope: Scope | None
    reasons: list[str]
    tokens_delivered: int | None


class ResponsesAnswer(Shape):
    """Responses by verdict, for the operator."""

    schema_: Literal["pagewitness.responses/1"] = Field(alias="schema")
    view: Literal["operator"]
    window: Window
    verdicts: list[Verdict] = Field(description="Verdicts that are listed.")
    unattributed: bool = Field(description="Only of requests that no gateway vouched for.")
    counts: Counts
    responses: list[OperatorRow]


class Detection(Shape):
    """The detection loop of this service since it started."""

    passes: int
    failures: int
    last_failure: str | None = Field(description="What went wrong in the last pass that failed; None if none did.")
    last_finished: Moment | None


class SilentEmitter(Shape):
    """An emitter that no agent speaks for any more, though it was never said to have ended."""

    emitter: str
    since: Moment = Field(description="Up to when its agent vouched for it.")


class StatusAnswer(Shape):
    """The state of the service, for the operator."""

    schema_: Literal["pagewitness.status/1"] = Field(alias="schema")
    version: str
    facts: int = Field(description="Facts stored, each counted once.")
    emitters: int = Field(description="Emitters that have posted.")
    boots: int
    unjudged: int = Field(description="Facts received after the last pass began, and not judged yet.")
    rejects: dict[str, int] = Field(description="Spans that were not stored, by reason.")
    counts: Counts
    reasons: dict[str, int]
    evidence_starts: Moment | None
    watermark: Moment | None
    judged_at: Moment | None
    rule_set: str
    lost: int = Field(description="Facts that an agent vouched for or later ones imply, and that are not stored.")
    dropped: int = Field(description="Facts that hooks dropped because their ring was full.")
    unrecorded: dict[str, int] = Field(
        description="By emitter: requests that its engine finished, by its own count, and that left no leg. Only where "
        "the agent was told where to read that count.",
        default_factory=dict,
    )
    silent: list[SilentEmitter]
    detection: Detection
    pseudonym_keys: list[str] = Field(description="Ids of the keys under which tenants can be found by name.")
