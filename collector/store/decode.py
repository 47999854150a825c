"""The view that turns an export request into checked spans, written from the contract.

It is the privacy boundary: what leaves it is typed, named by the contract, and bounded. Attributes whose name the
contract does not put on the span stay behind. ClickHouse plans a view anew for each insert, about 50 microseconds a
function, so attributes are judged in lists, all by the same few functions, and not one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill

from collector.store.demands import MAX_ITEM, MAX_PAGES, MAX_TEXT, Places, page_lists, words
from engine_hooks.conventions import BOOT, CONTRACT, EMITTER, SPANS


def decode_view() -> str:
    """The view `decode`, from `inbox` to `decoded`."""
    return f"""CREATE MATERIALIZED VIEW IF NOT EXISTS decode TO decoded AS
WITH
{_contract()}
groups AS (
    SELECT received_at, arrayJoin(resource_spans) AS group FROM inbox
),
spans AS (
    SELECT
        received_at,
        group.resource.attributes AS about,
        about.value.string_value[indexOf(about.key, '{EMITTER.name}')] AS emitter,
        about.value.string_value[indexOf(about.key, '{BOOT.name}')] AS boot,
        about.value.int_value[indexOf(about.key, '{CONTRACT.name}')] AS contract,
        arrayJoin(arrayFlatten(group.scope_spans.spans)) AS one
    FROM groups
),
-- The attributes of a span, in lists side by side. `places` says where in the contract each stands; 0 is nowhere.
placed AS (
    SELECT
        received_at, emitter, boot, contract,
        one.name AS span,
        one.trace_id AS trace_id,
        one.start_time_unix_nano AS start,
        one.attributes.key AS keys,
        one.attributes.value AS values,
        CAST(values.value, 'Array(Int8)') AS kinds,
        values.int_value AS ints,
        values.bool_value AS flags,
        values.string_value AS words,
        CAST(values.array_value.values.value, 'Array(Array(Int8))') AS item_kinds,
        values.array_value.values.int_value AS int_lists,
        values.array_value.values.string_value AS word_lists,
        arrayMap(key -> transform(concat(span, '/', key), place_names, place_numbers, 0), keys) AS places,
        -- an attribute that may not be there has no name from here on, so no column can ask for it
        arrayMap((key, place) -> if(place = 0, '', key), keys, places) AS names,
        indexOf(span_names, span) AS span_number
    FROM spans
),
judged AS (
    SELECT
        received_at, emitter, boot, contract, span, span_number, trace_id, start,
        keys, names, ints, flags, words, int_lists, word_lists, places,
        arrayMap((place, key, kind, item_kind, number, word, word_list, int_list) -> multiIf(
            place = 0, '',
            kind != place_kinds[place] OR countEqual(item_kind, place_item_kinds[place]) != length(item_kind),
            'wrong_type',
            number < place_least[place]
            OR length(word) > {MAX_TEXT}
            OR arrayExists(item -> length(item) > {MAX_TEXT}, word_list)
            OR arrayExists(item -> item < 0 OR item > {MAX_ITEM}, int_list)
            OR NOT (place_takes_text[place]
                OR concat(key, '=', word) IN (
{_list((f"'{word}'" for word in words()), indent=20)}
                )
                OR (place_takes_hex[place] AND length(word) = 32 AND lower(hex(unhex(word))) = word)),
            'bad_value',
            ''), places, keys, kinds, item_kinds, ints, words, word_lists, int_lists) AS faults,
        arrayFirstIndex(fault -> fault != '', faults) AS fault,
        arrayMap(int_list -> length(int_list), int_lists) AS counts,
        arrayFirstIndex(
            (place, count) -> place > 0 AND count > 0 AND count != counts[indexOf(places, place_beside[place])],
            places, counts) AS uneven,
        words[indexOf(places, span_variant_place[span_number])] AS variant,
        arrayExcept(
            arrayConcat(
                span_requires[span_number],
                variant_requires[indexOf(variant_names, concat(span, '/', variant))],
                if(hasAny(places, span_of_leg[span_number]), span_with_leg[span_number], [])),
            places) AS missing,
{_page_list_checks()}
        -- In whatever order the attributes came, and without those that are not stored. SipHash, because facts are told
        -- apart by it, and nobody must be able to make one that passes for another.
        sipHash64(emitter, boot, contract, span, trace_id, start, arraySort(arrayFilter(hash -> hash != 0, arrayMap(
            (place, key, number, flag, word, int_list, word_list) ->
                if(place = 0, 0, sipHash64(key, number, flag, word, int_list, word_list)),
            places, keys, ints, flags, words, int_lists, word_lists)))) AS content_hash
    FROM placed
)
SELECT
    fromUnixTimestamp64Nano(toInt64(received_at), 'UTC') AS received_at,
    emitter, boot, contract, span,
    lower(hex(trace_id)) AS uid,
    fromUnixTimestamp64Nano(toInt64(start), 'UTC') AS time,
    mapFromArrays(names, CAST(ints, 'Array(Nullable(Int64))')) AS ints,
    mapFromArrays(names, CAST(flags, 'Array(Nullable(Bool))')) AS flags,
    mapFromArrays(names, words) AS words,
    mapFromArrays(names, int_lists) AS int_lists,
    mapFromArrays(names, word_lists) AS word_lists,
    content_hash,
    multiIf(
        emitter = '', 'missing_attribute:{EMITTER.name}',
        boot = '', 'missing_attribute:{BOOT.name}',
        span_number = 0, 'unknown_span',
        length(trace_id) != 16 OR trace_id = unhex('{"00" * 16}'), 'bad_value:trace_id',
        start = 0 OR start > {2**63 - 1}, 'bad_value:start_time_unix_nano',
        length(arrayDistinct(keys)) != length(keys), 'duplicate_attribute',
        fault > 0, concat(faults[fault], ':', names[fault]),
        notEmpty(missing), concat('missing_attribute:', place_attributes[missing[1]]),
        uneven > 0, concat('bad_value:', names[uneven]),
        {_page_list_reasons()}
        '') AS reason,
    countEqual(places, 0) AS unknown_attributes,
    byteSize(keys, ints, flags, words, int_lists, word_lists) AS size
FROM judged"""


def _contract() -> str:
    """The contract as constants: what stands at each place, and which places a span and its variant must fill."""
    places = Places()
    variants = places.of_variants
    constants = {
        "place_names": (f"'{place.span.name}/{place.wire_name}'" for place in places.all),
        "place_numbers": range(1, len(places.all) + 1),
        "place_attributes": (f"'{place.wire_name}'" for place in places.all),
        "place_kinds": (place.kind for place in places.all),
        "place_item_kinds": (place.item_kind for place in places.all),
        "place_least": (place.least for place in places.all),
        "place_beside": places.beside,
        "place_takes_text": (int(place.is_free) for place in places.all),
        "place_takes_hex": (int(place.is_hex) for place in places.all),
        "span_names": (f"'{span.name}'" for span in SPANS),
        "span_variant_place": (places.variant[span] for span in SPANS),
        "span_requires": (places.always[span] for span in SPANS),
        "span_of_leg": (places.of_leg[span] for span in SPANS),
        "span_with_leg": (places.with_leg[span] for span in SPANS),
        "variant_names": (f"'{span.name}/{variant}'" for span, variant in variants),
        "variant_requires": variants.values(),
    }
    return "\n".join(f"[\n{_list(values, indent=4)}\n] AS {name}," for name, values in constants.items())


def _page_list_checks() -> str:
    lines = []
    for number, (_, lengths) in enumerate(page_lists()):
        lines.append(f"""\
        int_lists[indexOf(names, '{lengths}')] AS lengths_{number},
        has(lengths_{number}, 0) OR arraySum(lengths_{number}) > {MAX_PAGES} AS bad_runs_{number},""")
    return "\n".join(lines)


def _page_list_reasons() -> str:
    names = [starts.removesuffix(".start") for starts, _ in page_lists()]
    return "\n        ".join(f"bad_runs_{number}, 'bad_value:{name}'," for number, name in enumerate(names))


def _list(values: Iterable[object], indent: int) -> str:
    margin = " " * indent
    text = ", ".join(str(value) for value in values)
    return fill(
        text, 120, initial_indent=margin, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
