"""Each attribute of the contract names who supplies it, or says that nobody does; and that is what the hooks do."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_hooks import conventions as c
from engine_hooks.recorder import Recorder
from engine_hooks.sglang_plugin.table import TABLE
from engine_hooks.suppliers import ASIDES, NOBODY, Who, hook_points, named_hooks, supplier_of, unsupplied
from lab.captures.capture import Capture
from tests.repo.tree import ROOT

CAPTURES = sorted(path.parent for path in (ROOT / "lab" / "captures").glob("*/bodies.bin"))
PLUGIN = ROOT / "engine_hooks" / "sglang_plugin"

OPTIONAL: dict[str, tuple[c.Span, dict[str, c.Attribute]]] = {
    "node_config": (
        c.NODE_CONFIG,
        {
            "rank_names": c.RANK_NAMES,
            "parallel": c.PARALLEL_TP,
            "region": c.REGION,
            "model_revision": c.MODEL_REVISION,
            "kv_layout": c.KV_LAYOUT,
            "components": c.COMPONENTS,
            "host_tokens": c.HOST_TOKENS,
            "slots": c.SLOTS,
            "safety": c.SAFETY,
        },
    ),
    "admission": (
        c.REQUEST_ADMISSION,
        {"status": c.HTTP_STATUS, "resumes": c.RESUMES, "namespace": c.NAMESPACE},
    ),
    "transfer_reserved": (
        c.TRANSFER,
        {"slot": c.SLOT, "peers": c.PEERS, "page_bytes": c.PAGE_BYTES, "state_pages": c.STATE_PAGES},
    ),
    "transfer_destination": (c.TRANSFER, {"slot": c.SLOT, "peers": c.PEERS, "state_pages": c.STATE_PAGES}),
    "transfer_queued": (c.TRANSFER, {"last": c.CHUNK_LAST, "state_pages": c.STATE_PAGES}),
    "transfer_concluded": (c.TRANSFER, {"peer_rank": c.PEER_RANK, "failure": c.FAILURE}),
    "read": (c.PAGE_READ, {"row": c.ROW, "row_generation": c.ROW_GENERATION}),
    "release": (c.PAGE_RELEASE, {"after_seq": c.AFTER_SEQ}),
    "response": (c.RESPONSE, {"status": c.HTTP_STATUS}),
    "end": (
        c.REQUEST_END,
        {"destination": c.DESTINATION, "steps": c.STEPS, "acquired_pages": c.ACQUIRED_PAGES},
    ),
    "acquire": (
        c.PAGE_ACQUIRE,
        {
            "generations": c.GENERATION,
            "component": c.COMPONENT,
            "row": c.ROW,
            "row_generation": c.ROW_GENERATION,
            "after_seq": c.AFTER_SEQ,
        },
    ),
    "write": (c.PAGE_WRITE, {"component": c.COMPONENT, "storage": c.STORAGE}),
    "share": (
        c.PAGE_SHARE,
        {
            "storage": c.STORAGE,
            "namespace": c.NAMESPACE,
            "pages": c.PAGES,
            "component": c.COMPONENT,
            "after_seq": c.AFTER_SEQ,
        },
    ),
    "free": (c.PAGE_FREE, {"generations": c.GENERATION, "component": c.COMPONENT, "after_seq": c.AFTER_SEQ}),
    "alarm": (c.ENGINE_ALARM, {"row": c.ROW, "position": c.POSITION, "slot": c.SLOT, "pages": c.PAGES}),
}
"""What the recorder's methods may be given or not: the attribute that it becomes."""

ALWAYS = {"transfer_committed", "transfer_refused", "slot_use", "step"}
"""Methods that are given all that they record."""


def calls() -> Iterator[tuple[str, set[str]]]:
    """Each call of a method of the recorder in the plugin: its name, and the names that it is given."""
    for path in PLUGIN.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value
                if isinstance(of, ast.Name | ast.Attribute) and "recorder" in ast.unparse(of):
                    yield node.func.attr, {keyword.arg for keyword in node.keywords if keyword.arg}


def words_in(*names: str) -> set[str]:
    """Every text constant of modules of the plugin."""
    return {
        node.value
        for name in names
        for node in ast.walk(ast.parse((PLUGIN / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


PLACES = [(span, field.attribute) for span in c.SPANS for field in c.fields_of(span)]


@pytest.mark.parametrize(("span", "attribute"), PLACES, ids=lambda one: one.name)
def test_every_attribute_of_every_span_says_who_supplies_it(span: c.Span, attribute: c.Attribute) -> None:
    supplier = supplier_of(span, attribute)
    assert bool(supplier.hooks) == (supplier.who is Who.HOOKS)


@pytest.mark.parametrize("name", named_hooks())
def test_hooks_that_are_named_are_in_the_table(name: str) -> None:
    assert hook_points(name)


def test_what_hooks_tell_beside_is_told_by_handlers_of_the_table() -> None:
    handlers = {row.handler for row in TABLE}
    assert {handler for told in ASIDES.values() for handler in told} <= handlers


def test_every_fact_of_the_table_supplies_something() -> None:
    assert {fact for row in TABLE for fact in row.facts} <= set(named_hooks())


def test_an_attribute_that_a_span_does_not_have_has_no_supplier_there() -> None:
    with pytest.raises(KeyError, match="has no attribute"):
        supplier_of(c.RESPONSE, c.ROOM)


def test_the_optional_parameters_of_the_recorder_are_all_listed() -> None:
    methods = {name: function for name, function in inspect.getmembers(Recorder, inspect.isfunction) if name[0] != "_"}
    optional = {
        name: {one.name for one in inspect.signature(method).parameters.values() if one.default is not one.empty}
        for name, method in methods.items()
        if name not in {"hook_error", "close"}
    }
    assert {name: names for name, names in optional.items() if name not in ALWAYS} == {
        name: set(attributes) for name, (_, attributes) in OPTIONAL.items()
    }
    assert not [name for name in ALWAYS if optional[name]]


@pytest.mark.parametrize("method", [name for name in OPTIONAL if name != "node_config"])
def test_an_attribute_has_hooks_for_a_supplier_exactly_if_they_give_it_to_the_recorder(method: str) -> None:
    span, attributes = OPTIONAL[method]
    given = {name for called, names in calls() if called == method for name in names}
    by_hooks = {name for name, attribute in attributes.items() if supplier_of(span, attribute).who is Who.HOOKS}
    assert given & set(attributes) == by_hooks


def test_a_node_configuration_is_given_all_that_its_attributes_name_hooks_for() -> None:
    span, attributes = OPTIONAL["node_config"]
    by_hooks = {name for name, attribute in attributes.items() if supplier_of(span, attribute).who is Who.HOOKS}
    assert set(attributes) & words_in("node.py", "described.py") == by_hooks


def test_a_span_that_hooks_supply_is_recorded_by_some_hook() -> None:
    recorded = {OPTIONAL[name][0] for name, _ in calls() if name in OPTIONAL}
    recorded |= {c.SLOT_USE, c.PAGE_STEP} if {"slot_use", "step"} <= {name for name, _ in calls()} else set()
    by_hooks = {span for span in c.SPANS if supplier_of(span, span.fields[0].attribute).who is Who.HOOKS}
    assert recorded == by_hooks


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_what_the_real_engine_was_seen_to_say_has_a_supplier(path: Path) -> None:
    nobodys = {(span.name, name) for span, attribute in unsupplied() for name in attribute.wire_names}
    seen = {
        (span.name, attribute.key)
        for body in Capture.load(path).bodies
        for resource in body.message().resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        for attribute in span.attributes
    }
    assert seen
    assert not seen & nobodys


def test_what_has_no_supplier_is_told_by_nobody_and_is_optional_or_a_whole_span() -> None:
    for span, attribute in unsupplied():
        whole = all(supplier_of(span, field.attribute) is NOBODY for field in span.fields)
        assert whole or not span.field(attribute.name).required
