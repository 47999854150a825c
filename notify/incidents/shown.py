"""An incident as its answer shows it to the operator."""

from __future__ import annotations

from notify.evidence import NEVER
from notify.incidents.answers import Frozen, IncidentAnswer
from notify.incidents.definition import AsOf, Incident, moment
from notify.names import TenantNames
from notify.times import iso


def shown(incident: Incident, names: TenantNames) -> IncidentAnswer:
    """The documented object; excluded tenants by name where the operator's list knows them, each once."""
    definition = incident.definition
    tenants = {names.identity(*one): names.reference(*one) for one in reversed(definition.excluded_tenants)}
    return IncidentAnswer(
        schema="pagewitness.incident/1",
        view="operator",
        name=incident.name,
        revision=incident.revision,
        defined_at=iso(incident.defined_at),
        note=incident.note,
        window=definition.window.shown(),
        models=list(definition.models),
        rules=list(definition.rules),
        effects=list(definition.effects),
        scopes=list(definition.scopes),
        excluded_traffic=list(definition.excluded_traffic),
        excluded_tenants=list(reversed(tenants.values())),
        nodes=list(definition.nodes),
        excluded_nodes=list(definition.excluded_nodes),
        as_of=_frozen(incident.as_of),
        digest=incident.digest,
    )


def _frozen(as_of: AsOf) -> Frozen:
    return Frozen(
        version=as_of.version,
        cursor=iso(moment(as_of.cursor)),
        judged_at=iso(as_of.judged_at),
        watermark=iso(as_of.watermark) if as_of.watermark >= NEVER else None,
        evidence_starts=iso(as_of.evidence_from) if as_of.evidence_from else None,
        rule_set=as_of.rule_set,
        rules_digest=as_of.rules_digest,
        contract=as_of.contract,
    )
