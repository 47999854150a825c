"""The evidence contract: the one list of spans and attributes that pagewitness records.

Everything else is derived from this module or checked against it: the packed layout of a fact in the ring
(:mod:`engine_hooks.facts`), the OpenTelemetry spans that the agent posts, the columns of the store and
``docs/evidence.md``. The schema is closed: what is not on this list is never stored.

One span is one fact. Its identity is (emitter, boot, seq); its trace id is the uid of its leg, its span id is
derived from its identity. Resource attributes name the emitter and its boot, because the receiver does not parse
spans.

No attribute carries a token id, text of a prompt or an answer, an embedding, a free-text reason or an unkeyed
digest of any of these.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

CONTRACT_VERSION = 1
"""Raised by one with every change of a span or an attribute; stored with each fact."""


class Type(enum.Enum):
    """How an attribute travels: in the ring, on the wire (OTLP) and in the store."""

    INT = "int"  # ring: int64; wire: int
    BOOL = "bool"  # ring: one byte; wire: bool
    ENUM = "enum"  # ring: index into `choices`, one byte; wire: the word
    DIGEST = "digest"  # ring: 16 bytes, all zero = absent; wire: 32 hex digits
    TEXT = "text"  # ring: UTF-8, length-prefixed; wire: string. Never client text
    TEXTS = "texts"  # ring: as TEXT, joined by newlines; wire: array of strings
    PAGES = "pages"  # ring: int32 page ids in token order; wire: run-lengths, two int arrays


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name on the wire, how it travels, its unit, and one sentence on what it says.

    An attribute of type PAGES is two on the wire, ``<name>.start`` and ``<name>.length``: the first page id and
    the number of consecutive ids of each run, in token order.
    """

    name: str
    type: Type
    unit: str
    brief: str
    choices: tuple[str, ...] = ()

    @property
    def wire_names(self) -> tuple[str, ...]:
        """Names of the OTLP attributes that carry it."""
        if self.type is Type.PAGES:
            return (f"{self.name}.start", f"{self.name}.length")
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute on a span. `required` is True, False, or the variants of the span that require it."""

    attribute: Attribute
    required: bool | tuple[str, ...] = True

    def is_required(self, variant: str | None) -> bool:
        """Whether a span of this variant must carry the attribute."""
        if isinstance(self.required, bool):
            return self.required
        return variant in self.required


@dataclass(frozen=True, slots=True)
class Span:
    """One kind of fact.

    `code` is its number in the ring, never reused. `leg` facts belong to one leg and carry LEG_FIELDS. `variant`
    names the ENUM attribute whose value decides which optional attributes are required.
    """

    name: str
    code: int
    brief: str
    leg: bool
    fields: tuple[Field, ...]
    variant: Attribute | None = None

    def field(self, name: str) -> Field:
        """The field whose attribute has this wire name. Raises KeyError if the span has none."""
        for candidate in self.fields:
            if candidate.attribute.name == name:
                return candidate
        raise KeyError(f"{self.name} has no attribute {name}")


def _int(name: str, unit: str, brief: str) -> Attribute:
    return Attribute(name, Type.INT, unit, brief)


def _enum(name: str, brief: str, *choices: str) -> Attribute:
    return Attribute(name, Type.ENUM, "", brief, choices)


def _text(name: str, brief: str) -> Attribute:
    return Attribute(name, Type.TEXT, "", brief)


def _digest(name: str, brief: str) -> Attribute:
    return Attribute(name, Type.DIGEST, "", brief)


UNATTRIBUTED = "unattributed"
"""The tenant of a request whose `cache_salt` was missing or not vouched for."""

# ------------------------------------------------------------------ the resource of every batch

SERVICE_NAME = _text("service.name", "Always `pagewitness-hooks`.")
EMITTER = _text("service.instance.id", "The emitter: `<prefix>/<name>`, one recording process. A token is bound to a prefix.")
BOOT = _digest("pagewitness.boot", "One life of the emitter: a random id, never a start time.")
CONTRACT = _int("pagewitness.contract", "version", "CONTRACT_VERSION of the recording process.")
RESOURCE_FIELDS = (Field(SERVICE_NAME), Field(EMITTER), Field(BOOT), Field(CONTRACT))

# ------------------------------------------------------------------ on every fact

SEQ = _int("pagewitness.seq", "facts", "Number of the fact in this boot, from 1, gapless: a hole is a lost fact.")
COMMON_FIELDS = (Field(SEQ),)

ORDINAL = _int("pagewitness.leg.ordinal", "facts", "Number of the fact in its leg, from 1; a dropped fact uses one up.")
TENANT = _text("tenant.id", "Keyed pseudonym of the tenant (32 hex digits), or the word `unattributed`.")
TENANT_KEY = _text("pagewitness.tenant.key", "Id of the key that made the pseudonym; absent when unattributed.")
TRAFFIC = _enum("pagewitness.traffic", "Who sent the request.", "customer", "internal", "researcher", "canary")
LEG_FIELDS = (Field(ORDINAL), Field(TENANT), Field(TENANT_KEY, required=False), Field(TRAFFIC))

# ------------------------------------------------------------------ attributes of single spans

NODE = _digest("pagewitness.node.id", "The node boot: drawn once by the parent process, shared by every rank.")
ROLE = _enum("pagewitness.node.role", "What the node does.", "prefill", "decode", "unified")
RANK = _int("pagewitness.rank", "index", "Tensor-parallel rank of the emitter in its node, from 0.")
RANKS = _int("pagewitness.ranks", "count", "How many ranks the node has; each is an emitter.")
ENGINE = _text("pagewitness.engine", "The serving engine: `sglang`.")
ENGINE_VERSION = _text("pagewitness.engine.version", "Its version.")
MODEL = _text("gen_ai.request.model", "The served model name.")
CONTEXT_TOKENS = _int("pagewitness.context.tokens", "tokens", "Context length that the node accepts.")
POOL_TOKENS = _int("pagewitness.pool.tokens", "tokens", "Capacity of the KV pool of this rank.")
INPUT_LIMIT = _int("pagewitness.input.limit", "tokens", "Longest prompt that the node admits (prompts of this length or more are rejected).")
PAGE_SIZE = _int("pagewitness.page.size", "tokens", "Token slots in one page.")
KV_DTYPE = _text("pagewitness.kv.dtype", "Element type of the KV pool.")
KV_LAYERS = _int("pagewitness.kv.layers", "layers", "Layers whose KV the pool holds on this rank.")
BACKEND = _text("pagewitness.transfer.backend", "KV transfer backend, e.g. `mooncake`.")
PREFIX_CACHE = Attribute("pagewitness.prefix_cache", Type.BOOL, "", "Whether finished requests' pages stay in a prefix cache here.")
TIER = _enum("pagewitness.tier", "How much is recorded.", "control", "exact")
HOOKS_ATTACHED = Attribute("pagewitness.hooks.attached", Type.TEXTS, "", "Hook points that are on in this process.")
HOOKS_MISSING = Attribute("pagewitness.hooks.missing", Type.TEXTS, "", "Hook points that could not attach: their facts have no supplier here.")
FINGERPRINT = _digest("pagewitness.config.fingerprint", "Digest of the configuration above: equal on equal configurations.")

ADMISSION = _enum("pagewitness.admission.state", "What the node decided.", "admitted", "rejected")
REASON = _enum(
    "pagewitness.admission.reason",
    "Why it was rejected; `none` when admitted. Never the engine's message, which can hold client text.",
    "none", "input_too_long", "grammar", "no_room", "multimodal", "unsupported", "other",
)
NEED_TOKENS = _int("pagewitness.tokens.need", "tokens", "Length of the prompt that the client sent, before any placeholder.")
ROOM = _int("pagewitness.room", "", "Keyed 63-bit digest of the bootstrap room. Rooms are chosen by clients: evidence, not a key to trust.")
RID = _digest("pagewitness.rid", "Keyed digest of the request id that the engine used.")

SIDE = _enum("pagewitness.transfer.side", "Which end of the KV transfer this is.", "receive", "send")
STATUS = _enum(
    "pagewitness.transfer.status",
    "reserved: decode published the pages it wants filled. destination: prefill received that list. queued: prefill "
    "enqueued one chunk (not proof that it landed). committed / refused: decode took the transfer for complete, or not.",
    "reserved", "destination", "queued", "committed", "refused",
)
SESSION = _text("pagewitness.transfer.session", "The decode node's transfer session (an address of the infrastructure).")
DESTINATION = _digest("pagewitness.transfer.destination", "Keyed digest of the destination pages as int32 little-endian, in order.")
PAGES = Attribute(
    "pagewitness.pages", Type.PAGES, "page ids",
    "reserved: destination pages past the prefix. queued: source pages of the chunk. release: every page the leg held.",
)
PAGE_COUNT = _int("pagewitness.page.count", "pages", "reserved / destination: pages wanted. queued: pages of the chunk.")
PREFIX_TOKENS = _int("pagewitness.prefix.tokens", "tokens", "Leading tokens that came from a prefix cache of this node: not transferred, not computed.")
PROMPT_TOKENS = _int("pagewitness.prompt.tokens", "tokens", "Prompt length that the node works with (after a placeholder, if there was one).")
CHUNK_PAGE = _int("pagewitness.chunk.page", "pages", "Position of the chunk's first page in the destination list, from 0.")
CHUNK_TOKENS = _int("pagewitness.chunk.tokens", "tokens", "Valid tokens in the chunk; the rest of its last page is whatever the source page held.")
SENDER_PAGES = _int("pagewitness.sender.pages", "pages", "Pages that the sender believes the whole transfer has.")
SLOT = _int("pagewitness.slot", "index", "Metadata slot of the transfer.")

PHASE = _enum("pagewitness.read.phase", "first: the leg's first decode step. last: its longest read, recorded at its end.", "first", "last")
READ_TOKENS = _int("pagewitness.read.tokens", "tokens", "Token positions [0, n) that the step attended over.")
ROW = _int("pagewitness.row", "index", "Row of the request in the engine's request-to-token table.")
ROW_GENERATION = _int("pagewitness.row_generation", "count", "SGLang's counter of that row.")

RELEASE_MODE = _enum("pagewitness.release.mode", "How the leg gave its pages up; `evict`: on the way, to pages that the prefix cache already had. All others end its hold.", "immediate", "deferred", "timeout", "evict", "retract")
WRITTEN_START = _int("pagewitness.written.start", "tokens", "First token position whose KV this leg's own forwards wrote.")
WRITTEN_END = _int("pagewitness.written.end", "tokens", "One past the last one; equal to the start if it wrote none.")
PAGES_COMPLETE = Attribute("pagewitness.pages.complete", Type.BOOL, "", "Whether the list holds every page of the leg (false where ids were only on the GPU).")

FINISH = _enum("pagewitness.finish", "How the answer ended.", "stop", "length", "abort", "other")
HTTP_STATUS = _int("http.response.status_code", "", "Status that the engine's abort carried; absent when the engine does not know it.")
INPUT_TOKENS = _int("gen_ai.usage.input_tokens", "tokens", "Prompt tokens as the engine counts them for the client.")
OUTPUT_TOKENS = _int("gen_ai.usage.output_tokens", "tokens", "Tokens that the leg generated.")
DELIVERED = _int("pagewitness.tokens_delivered", "tokens", "Generated tokens that could reach the client; of an abort with an error status, only those streamed before it.")

END_STATE = _enum("pagewitness.end.state", "How the leg ended.", "finished", "aborted", "rejected", "failed", "retracted")
FACTS = _int("pagewitness.leg.facts", "facts", "How many facts the leg had, this one included: ordinals 1..n.")
QUEUED_PAGES = _int("pagewitness.queued.pages", "pages", "Total of pages that the leg enqueued for transfer.")
QUEUED_TOKENS = _int("pagewitness.queued.tokens", "tokens", "Total of valid tokens among them.")

SUBJECT = _text("pagewitness.subject.emitter", "The emitter that the agent speaks for.")
SUBJECT_BOOT = _digest("pagewitness.subject.boot", "Its boot.")
HIGH_WATER = _int("pagewitness.seq.high_water", "facts", "Every fact of the subject up to this seq was posted and acknowledged, but for those counted as lost.")
DROPS = _int("pagewitness.drops", "facts", "Facts of this boot that were lost: its ring was full, or the receiver refused them.")
HOOK_ERRORS = _int("pagewitness.hook.errors", "count", "Exceptions that the hook boundary swallowed in this boot.")
ATTESTED = _int("pagewitness.attested", "unix ns", "Everything that the subject recorded before this time was posted and acknowledged.")
CLOSE = _enum("pagewitness.close", "open: it lives, or not all it left was posted yet. clean: it closed its ring. crashed: it died without.", "open", "clean", "crashed")

# ------------------------------------------------------------------ the spans

NODE_CONFIG = Span(
    "pagewitness.node.config", 1, "What a node is set up to do. At boot and at every change.", leg=False,
    fields=(
        Field(NODE), Field(ROLE), Field(RANK), Field(RANKS), Field(ENGINE), Field(ENGINE_VERSION), Field(MODEL),
        Field(CONTEXT_TOKENS), Field(POOL_TOKENS), Field(INPUT_LIMIT), Field(PAGE_SIZE), Field(KV_DTYPE), Field(KV_LAYERS),
        Field(BACKEND), Field(PREFIX_CACHE), Field(TIER), Field(HOOKS_ATTACHED), Field(HOOKS_MISSING), Field(FINGERPRINT),
    ),
)

REQUEST_ADMISSION = Span(
    "pagewitness.request.admission", 2, "A node took a request in, or rejected it, with the true length of its prompt.", leg=True,
    fields=(
        Field(ADMISSION), Field(REASON), Field(NEED_TOKENS), Field(INPUT_LIMIT), Field(CONTEXT_TOKENS),
        Field(ROOM, required=False), Field(RID), Field(HTTP_STATUS, required=("rejected",)),
    ),
    variant=ADMISSION,
)

TRANSFER = Span(
    "pagewitness.transfer", 3, "One step of moving a prompt's KV from a prefill node to a decode node.", leg=True,
    fields=(
        Field(SIDE), Field(STATUS), Field(ROOM, required=("reserved", "destination")),
        Field(SESSION, required=("reserved", "destination")), Field(DESTINATION, required=("reserved", "destination")),
        Field(PAGES, required=("reserved", "queued")), Field(PAGE_COUNT, required=("reserved", "destination", "queued")),
        Field(PREFIX_TOKENS, required=("reserved", "destination")), Field(PROMPT_TOKENS, required=("reserved", "committed")),
        Field(CHUNK_PAGE, required=("queued",)), Field(CHUNK_TOKENS, required=("queued",)), Field(SENDER_PAGES, required=("queued",)),
        Field(SLOT, required=False),
    ),
    variant=STATUS,
)

PAGE_READ = Span(
    "pagewitness.page.read", 4, "How far into its pages a leg's decode steps attended.", leg=True,
    fields=(Field(PHASE), Field(READ_TOKENS), Field(ROW, required=False), Field(ROW_GENERATION, required=False)),
    variant=PHASE,
)

PAGE_RELEASE = Span(
    "pagewitness.page.release", 5, "Every page that a leg held, in token order, and what its own forwards wrote of them.", leg=True,
    fields=(
        Field(RELEASE_MODE), Field(PAGES), Field(PAGES_COMPLETE), Field(PREFIX_TOKENS), Field(WRITTEN_START), Field(WRITTEN_END),
    ),
    variant=RELEASE_MODE,
)

RESPONSE = Span(
    "pagewitness.response", 6, "What the engine told the client's side at the end: finish reason and token counts.", leg=True,
    fields=(Field(FINISH), Field(HTTP_STATUS, required=False), Field(INPUT_TOKENS), Field(OUTPUT_TOKENS), Field(DELIVERED)),
    variant=FINISH,
)

REQUEST_END = Span(
    "pagewitness.request.end", 7, "The last fact of a leg: how it ended, and the totals against which its evidence is complete.", leg=True,
    fields=(Field(END_STATE), Field(FACTS), Field(DESTINATION, required=False), Field(QUEUED_PAGES), Field(QUEUED_TOKENS)),
    variant=END_STATE,
)

EMITTER_STATUS = Span(
    "pagewitness.emitter", 8, "An agent's word on one boot it drains: how far, what was dropped, whether it lives.", leg=False,
    fields=(
        Field(SUBJECT), Field(SUBJECT_BOOT), Field(HIGH_WATER), Field(DROPS), Field(HOOK_ERRORS), Field(ATTESTED), Field(CLOSE),
    ),
    variant=CLOSE,
)

SPANS: tuple[Span, ...] = (NODE_CONFIG, REQUEST_ADMISSION, TRANSFER, PAGE_READ, PAGE_RELEASE, RESPONSE, REQUEST_END, EMITTER_STATUS)
SPANS_BY_NAME: dict[str, Span] = {span.name: span for span in SPANS}
SPANS_BY_CODE: dict[int, Span] = {span.code: span for span in SPANS}


def fields_of(span: Span) -> tuple[Field, ...]:
    """Every field that a span of this kind may carry, common ones first."""
    return COMMON_FIELDS + (LEG_FIELDS if span.leg else ()) + span.fields


def attributes() -> tuple[Attribute, ...]:
    """Every span attribute of the contract once, in order of first appearance (the columns of the store)."""
    seen: dict[str, Attribute] = {}
    for span in SPANS:
        for candidate in fields_of(span):
            known = seen.setdefault(candidate.attribute.name, candidate.attribute)
            if known is not candidate.attribute:
                raise ValueError(f"two attributes are named {known.name}")
    return tuple(seen.values())


def column(wire_name: str) -> str:
    """Column of the store for an attribute's wire name: `pagewitness.` is left out, dots become underscores."""
    return wire_name.removeprefix("pagewitness.").replace(".", "_")
