"""`notify response` as text: one response, what was found about it, and what it read."""

from __future__ import annotations

from collections.abc import Sequence

from notify.answers import OperatorRange, OperatorResponseAnswer, ResponseAnswer
from notify.evidence import plural
from notify.render.operator_table import tenant_words
from notify.render.screen import Screen
from notify.render.words import SCOPE_MEANS, show_reasons
from notify.times import for_people


def show_response(answer: ResponseAnswer, screen: Screen) -> None:
    """The response, for the tenant whose it is; with whose KV it read where the answer is an operator's."""
    operator = answer if isinstance(answer, OperatorResponseAnswer) else None
    if operator:
        screen.heading("Operator's view, not for customers")
    screen.heading(f"Response {answer.response_id}: {answer.verdict}")
    if operator:
        screen.line(f"Tenant {tenant_words(operator.tenant)}, recorded by {operator.emitter}.", indent=2)
    if answer.prefill_id:
        screen.line(f"Prefill leg {answer.prefill_id}.", indent=2)
    end = for_people(answer.ended) if answer.ended else "not seen"
    kind = f"model {answer.model or '?'}; {answer.traffic} traffic"
    screen.line(f"From {for_people(answer.started)} to {end} UTC; {kind}.", indent=2)
    status = "unknown to the engine" if answer.http_status is None else str(answer.http_status)
    screen.line(
        f"Tokens: {_known(answer.input_tokens)} in, {_known(answer.output_tokens)} out, "
        f"{_known(answer.tokens_delivered)} delivered; finish {answer.finish or 'not seen'}; HTTP status {status}.",
        indent=2,
    )
    if answer.verdict == "clean":
        screen.line(f"Clean for: {answer.clean_for}.", "green", indent=2)
    show_reasons(screen, dict.fromkeys(answer.reasons, 1))
    _show_reading(answer, screen)
    if operator:
        _show_donors(operator, screen)
    if answer.findings:
        screen.line()
        screen.line("Findings:")
    for finding in answer.findings:
        label = f"{finding.rule}.{finding.variant}" if finding.variant else finding.rule
        tokens = "" if finding.tokens_from is None else f" tokens {finding.tokens_from} to {_known(finding.tokens_to)}."
        what = f"{label} ({finding.effect}, {finding.severity}) at {for_people(finding.time)}"
        screen.line(f"{what}:{tokens} {finding.detail}", indent=2)


def _show_reading(answer: ResponseAnswer, screen: Screen) -> None:
    if not answer.foreign_slots:
        return
    screen.line(
        f"It read {plural(answer.foreign_slots, 'token slot')} that its own legs had not written: "
        f"KV of {plural(answer.other_tenants, 'other tenant')}; {answer.unattributed_slots} unattributed, "
        f"{answer.no_writer_slots} never written.",
        "red",
        indent=2,
    )
    for part in answer.ranges:
        screen.line(f"tokens {part.tokens_from} to {part.tokens_to}: {SCOPE_MEANS[part.scope]} ({part.via})", indent=4)


def _show_donors(answer: OperatorResponseAnswer, screen: Screen) -> None:
    """What it read of each response of a donor, most first."""
    shares: dict[tuple[str, str, str], list[OperatorRange]] = {}
    for read in answer.reads:
        whose = tenant_words(read.donor) if read.donor else "nobody"
        shares.setdefault((whose, read.donor_response_id, read.scope), []).append(read)
    for (whose, response, scope), reads in sorted(shares.items(), key=lambda share: -_slots(share[1])):
        amount = f"{plural(_slots(reads), 'slot')} on {plural(len({read.page for read in reads}), 'page')}"
        screen.line(f"{whose}, response {response or 'unknown'}: {amount} ({scope})", indent=4)


def _slots(reads: Sequence[OperatorRange]) -> int:
    return sum(read.slot_end - read.slot_start for read in reads)


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)
