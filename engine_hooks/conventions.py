"""The evidence contract: the one list of spans and attributes that pagewitness records.

Everything else is derived from this module or checked against it: the packed layout of a fact in the ring
(:mod:`engine_hooks.facts`), the OpenTelemetry spans that the agent posts, the columns of the store and
``docs/evidence.md``. The schema is closed: what is not on this list is never stored.

One span is one fact. Its identity is (emitter, boot, seq); its trace id is the uid of its leg, its span id is derived
from its identity. Resource attributes name emitter and boot, because the receiver does not parse spans. No attribute
carries a token id, text of a prompt or an answer, an embedding, a free-text reason or an unkeyed digest of any of these.
"""

from __future__ import annotations

from engine_hooks.contract_types import Attribute, Field, Span, Type
from engine_hooks.contract_types import a_digest as _digest
from engine_hooks.contract_types import a_text as _text
from engine_hooks.contract_types import a_word as _enum
from engine_hooks.contract_types import an_int as _int

__all__ = ["Attribute", "Field", "Span", "Type"]

CONTRACT_VERSION = 2
"""Raised by one with every change of a span or an attribute; stored with each fact. Fields, spans and words of an ENUM
are only ever added, at the end: what an older version recorded stays readable in rings and in the store."""

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
RANK_NAMES = Attribute("pagewitness.rank.names", Type.TEXTS, "", "Emitters of every rank of the node, in the order of the ranks, this one included; absent where the node spans hosts.")
PARALLEL_TP = _int("pagewitness.parallel.tp", "ranks", "Tensor-parallel size.")
PARALLEL_PP = _int("pagewitness.parallel.pp", "ranks", "Pipeline-parallel size.")
PARALLEL_DP = _int("pagewitness.parallel.dp", "replicas", "Data-parallel size.")
REGION = _text("cloud.region", "Where the node runs, as its operator says.")
MODEL_REVISION = _text("pagewitness.model.revision", "Revision of the model's weights, as the engine was told.")
KV_LAYOUT = _text("pagewitness.kv.layout", "Class of the KV pool and the sizes that peers must agree on, as `name=number` words.")
COMPONENTS = Attribute("pagewitness.components", Type.TEXTS, "", "Components that this rank holds, or that a transfer's manifest lists.")
HOST_TOKENS = _int("pagewitness.host.tokens", "tokens", "Capacity of the host tier of this rank; 0 = it has none.")
SLOTS = _int("pagewitness.slots", "slots", "Metadata slots of this rank.")
SAFETY = Attribute("pagewitness.safety", Type.TEXTS, "", "Protections of the engine that are on, e.g. `room_check`, `deferred_release=30`, `kv_canary=log`, `kv_checksum`.")
FINGERPRINT = _digest("pagewitness.config.fingerprint", "Digest of the configuration above: equal on equal configurations.")

ADMISSION = _enum("pagewitness.admission.state", "What the node decided.", "admitted", "rejected")
REASON = _enum(
    "pagewitness.admission.reason",
    "Why it was rejected; `none` when admitted. Never the engine's message, which can hold client text.",
    "none", "input_too_long", "grammar", "no_room", "multimodal", "unsupported", "other",
)
NEED_TOKENS = _int("pagewitness.tokens.need", "tokens", "Length of the prompt that the client sent, before any placeholder.")
ROOM = _int("pagewitness.room", "", "Keyed 63-bit digest of the bootstrap room. Rooms are chosen by clients: evidence, not a key to trust.")
RID = _digest("pagewitness.rid", "Keyed digest of the request id that the engine used. Of a delivery: absent where the engine draws ids of its own (several choices of one prompt).")

RESUMES = _digest("pagewitness.leg.resumes", "Uid of the leg of the same request on this node that was retracted before.")
NAMESPACE = _digest("pagewitness.namespace", "Keyed digest of what keeps this request's prefix-cache entries apart from others' (salt, extra key, adapter); absent = nothing does, or the node has no prefix cache.")

SIDE = _enum("pagewitness.transfer.side", "Which end of the KV transfer this is.", "receive", "send")
STATUS = _enum(
    "pagewitness.transfer.status",
    "reserved: decode published the pages it wants filled. destination: prefill received that list. queued: prefill "
    "enqueued one chunk (not proof that it landed). committed / refused: decode took the transfer for complete, or not. "
    "landed / failed: a sending rank concluded its part; as the sender says it, or as decode was told.",
    "reserved", "destination", "queued", "committed", "refused", "landed", "failed",
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
PEER_RANK = _int("pagewitness.peer.rank", "index", "landed / failed on decode: the prefill rank whose part it is.")
PEERS = _int("pagewitness.peers", "ranks", "reserved: prefill ranks that must report before decode commits. destination: decode ranks that are sent to.")
CHUNK_LAST = Attribute("pagewitness.chunk.last", Type.BOOL, "", "Whether the sender takes this chunk for the last one.")
PAGE_BYTES = _int("pagewitness.page.bytes", "bytes", "Size of one page on this rank, over all its buffers: pages times this is the manifest.")
STATE_PAGES = _int("pagewitness.state.pages", "pages", "Indices of state buffers (SSM, sliding window, index keys) that the manifest or the chunk lists beside its pages.")
FAILURE = _enum("pagewitness.failure", "Why a transfer failed. Never the engine's message.", "none", "aborted", "timeout", "peer_lost", "other")

COMPONENT = _enum("pagewitness.component", "What the pages hold; absent = `kv`.", "kv", "index_k", "draft", "swa", "state", "host", "aux", "staging")
STORAGE = _enum("pagewitness.storage", "Where the shared pages lie: on the device, in host memory, or outside the node.", "device", "host", "external")
GENERATION = Attribute("pagewitness.page.generation", Type.PER_PAGE, "count", "How often each page had been acquired by then in this boot, this time included: (pool, page, generation) is a page instance.")
AFTER_SEQ = _int("pagewitness.after_seq", "seq", "It happened right after the fact with this seq, and was recorded later because page ids came by an asynchronous copy; absent = at its own seq.")
PURPOSE = _enum("pagewitness.purpose", "What the pages were acquired for, or how they were written.", "prefill", "decode", "transfer", "load", "draft", "other")
ACQUIRED_FROM = _int("pagewitness.acquired.from", "tokens", "First token position that the acquired pages are for.")
SHARE = _enum("pagewitness.share.operation", "match: the leg reuses cached pages. publish: the leg's pages enter the cache. load / store: the host tier gives or takes them.", "match", "publish", "load", "store")
SHARED_TOKENS = _int("pagewitness.shared.tokens", "tokens", "match, publish: how many leading tokens of the leg are shared. load, store: how many tokens moved.")
KEY_COMPOSITION = Attribute("pagewitness.key.composition", Type.TEXTS, "", "What the cache's key is made of here: `tokens`, `cache_salt`, `extra_key`, `lora`; `request` for a backup that only its own request can find.")
SLOT_OPERATION = _enum("pagewitness.slot.operation", "write: prefill filled the slot. read: decode took its content.", "write", "read")
SLOT_ROOM = _int("pagewitness.slot.room", "", "Keyed digest of the room that the slot's content names; absent = it names none (not yet written).")
STEP_MODE = _enum("pagewitness.step.mode", "What kind of forward it was.", "decode", "extend", "verify", "other")
ROWS = Attribute("pagewitness.step.rows", Type.INTS, "index", "Rows of the batch, in its order.")
ROW_GENERATIONS = Attribute("pagewitness.step.row_generations", Type.INTS, "count", "The generation of each row; empty where the engine does not count.")
STEP_STARTS = Attribute("pagewitness.step.starts", Type.INTS, "tokens", "First token position that the forward wrote, for each row.")
STEP_ENDS = Attribute("pagewitness.step.ends", Type.INTS, "tokens", "For each row: it attended over token positions [0, n) and wrote up to n.")
FREE_CAUSE = _enum("pagewitness.free.cause", "What gave the pages back.", "release", "evict", "other")
STEPS = _int("pagewitness.steps", "forwards", "Forwards that the leg took part in: so many of the step facts name it.")
ACQUIRED_PAGES = _int("pagewitness.acquired.pages", "pages", "Total of pages that acquire facts of the leg name.")
ALARM = _enum("pagewitness.alarm", "What raised it.", "kv_canary", "kv_checksum", "room_check", "stamp")
ALARM_ACTION = _enum("pagewitness.alarm.action", "What the engine did about it.", "logged", "aborted", "raised")
ALARM_REASON = _enum("pagewitness.alarm.reason", "What did not fit.", "room_mismatch", "room_missing", "checksum", "chain", "token", "position", "stamp", "other")
POSITION = _int("pagewitness.token.position", "tokens", "Token position that the alarm names.")

PHASE = _enum("pagewitness.read.phase", "first: the leg's first decode step. last: its longest read, recorded at its end.", "first", "last")
READ_TOKENS = _int("pagewitness.read.tokens", "tokens", "Token positions [0, n) that the step attended over.")
ROW = _int("pagewitness.row", "index", "Row of the request in the engine's request-to-token table.")
ROW_GENERATION = _int("pagewitness.row_generation", "count", "SGLang's counter of that row.")

RELEASE_MODE = _enum("pagewitness.release.mode", "How the leg gave its pages up; `timeout`: deferred, and prefill had not said that it stopped writing. `evict`: on the way, to pages that the prefix cache already had. All others end its hold.", "immediate", "deferred", "timeout", "evict", "retract")
WRITTEN_START = _int("pagewitness.written.start", "tokens", "First token position whose KV this leg's own forwards wrote.")
WRITTEN_END = _int("pagewitness.written.end", "tokens", "One past the last one; equal to the start if it wrote none.")
PAGES_COMPLETE = Attribute("pagewitness.pages.complete", Type.BOOL, "", "Whether the list holds every page of the leg (false where ids were only on the GPU).")

FINISH = _enum("pagewitness.finish", "How the answer ended.", "stop", "length", "abort", "other")
HTTP_STATUS = _int("http.response.status_code", "", "Status that the engine's abort carried; absent when the engine does not know it. Of a delivery: the one that the client got.")
INPUT_TOKENS = _int("gen_ai.usage.input_tokens", "tokens", "Prompt tokens as the engine counts them for the client.")
OUTPUT_TOKENS = _int("gen_ai.usage.output_tokens", "tokens", "Tokens that the leg generated.")
DELIVERED = _int("pagewitness.tokens_delivered", "tokens", "Generated tokens that could reach the client; of an abort with an error status, only those streamed before it.")

END_STATE = _enum("pagewitness.end.state", "How the leg ended.", "finished", "aborted", "rejected", "failed", "retracted")
FACTS = _int("pagewitness.leg.facts", "facts", "How many facts the leg had, this one included: ordinals 1..n.")
QUEUED_PAGES = _int("pagewitness.queued.pages", "pages", "Total of pages that the leg enqueued for transfer; 2^62 where a hook failed on the way, so that nobody knows.")
QUEUED_TOKENS = _int("pagewitness.queued.tokens", "tokens", "Total of valid tokens among them; 2^62 where nobody knows.")

CANARY_ID = _text("pagewitness.canary.id", "Id of a planted marker.")
CANARY_OWNER = _text("pagewitness.canary.owner", "Keyed pseudonym of the tenant that the marker was planted for.")
RESPONSE_ID = _text("gen_ai.response.id", "Id of the response, minted by the gateway that vouches for it.")
DELIVERY = _enum("pagewitness.delivery.state", "complete: the whole answer was handed over. cut: the client went away, or the answer broke off, before. failed: the gateway raised before it had an answer; the client got a 500.", "complete", "cut", "failed")
CLIENT_SALT = Attribute("pagewitness.gateway.client_salt", Type.BOOL, "", "Whether the client had sent a `cache_salt` of its own, which was taken out.")

SUBJECT = _text("pagewitness.subject.emitter", "The emitter that the agent speaks for.")
SUBJECT_BOOT = _digest("pagewitness.subject.boot", "Its boot.")
HIGH_WATER = _int("pagewitness.seq.high_water", "facts", "Every fact of the subject up to this seq was posted and acknowledged, but for those counted as lost.")
DROPS = _int("pagewitness.drops", "facts", "Facts of this boot that were lost: its ring was full, or the receiver refused them.")
HOOK_ERRORS = _int("pagewitness.hook.errors", "count", "Exceptions that the hook boundary swallowed in this boot.")
ATTESTED = _int("pagewitness.attested", "unix ns", "Everything that the subject recorded before this time was posted and acknowledged.")
CLOCK_OFFSET = _int("pagewitness.clock.offset", "ns", "The receiver's clock less this host's, as measured by the agent.")
CLOCK_ERROR = _int("pagewitness.clock.error", "ns", "How far off that can be, either way.")
ENGINE_REQUESTS = _int("pagewitness.engine.requests", "requests", "Requests that the node's engine has finished in this boot by its own count, which the hooks have no part in.")
CLOSE = _enum("pagewitness.close", "open: it lives, or not all it left was posted yet. clean: it closed its ring. crashed: it died without.", "open", "clean", "crashed")

# ------------------------------------------------------------------ the spans

def _new(*added: Attribute) -> tuple[Field, ...]:
    """Optional fields of contract version 2."""
    return tuple(Field(one, required=False, since=2) for one in added)


_ORDINALS = "A hole in the leg's ordinals, or an ordinal count in `request.end` that the leg does not reach."
_SEQS = "A hole in the boot's seqs, up to the high-water mark of the agent's last word."

NODE_CONFIG = Span(
    "pagewitness.node.config", 1, "What a node is set up to do. At boot and at every change.", leg=False,
    fields=(
        Field(NODE), Field(ROLE), Field(RANK), Field(RANKS), Field(ENGINE), Field(ENGINE_VERSION), Field(MODEL),
        Field(CONTEXT_TOKENS), Field(POOL_TOKENS), Field(INPUT_LIMIT), Field(PAGE_SIZE), Field(KV_DTYPE), Field(KV_LAYERS),
        Field(BACKEND), Field(PREFIX_CACHE), Field(TIER), Field(HOOKS_ATTACHED), Field(HOOKS_MISSING), Field(FINGERPRINT),
        *_new(RANK_NAMES, PARALLEL_TP, PARALLEL_PP, PARALLEL_DP, REGION, MODEL_REVISION, KV_LAYOUT, COMPONENTS, HOST_TOKENS, SLOTS, SAFETY),
    ),
    absence="Nobody knows what the boot's pages are, or what it cannot see: none of its legs is judged clean.",
    revealed_by="A boot with facts and no configuration; a rank that another rank's `rank.names` lists and nobody heard.",
)

REQUEST_ADMISSION = Span(
    "pagewitness.request.admission", 2, "A node took a request in, or rejected it, with the true length of its prompt.", leg=True,
    fields=(
        Field(ADMISSION), Field(REASON), Field(NEED_TOKENS), Field(INPUT_LIMIT), Field(CONTEXT_TOKENS),
        Field(ROOM, required=False), Field(RID), Field(HTTP_STATUS, required=("rejected",)),
        *_new(RESUMES, NAMESPACE),
    ),
    variant=ADMISSION,
    absence="A rejection goes unseen, and the leg cannot be joined by its room.",
    revealed_by=_ORDINALS + " A leg of which nothing at all came: the engine's own count of requests, and the gateway's deliveries.",
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
        *_new(PEER_RANK, PEERS, CHUNK_LAST, PAGE_BYTES, STATE_PAGES, FAILURE, COMPONENTS),
    ),
    variant=STATUS,
    absence="A chunk that was sent looks unsent, or a short transfer whole.",
    revealed_by=_ORDINALS + " Chunks: the totals `queued.pages` and `queued.tokens` of `request.end`.",
)

PAGE_READ = Span(
    "pagewitness.page.read", 4, "How far into its pages a leg's decode steps attended.", leg=True,
    fields=(Field(PHASE), Field(READ_TOKENS), Field(ROW, required=False), Field(ROW_GENERATION, required=False)),
    variant=PHASE,
    absence="A response that read foreign pages looks as if it had read nothing, or less.",
    revealed_by=_ORDINALS,
)

PAGE_RELEASE = Span(
    "pagewitness.page.release", 5, "Every page that a leg held, in token order, and what its own forwards wrote of them.", leg=True,
    fields=(
        Field(RELEASE_MODE), Field(PAGES), Field(PAGES_COMPLETE), Field(PREFIX_TOKENS), Field(WRITTEN_START), Field(WRITTEN_END),
        *_new(COMPONENT, GENERATION, AFTER_SEQ),
    ),
    variant=RELEASE_MODE,
    absence="The leg's pages and what it wrote are unknown: it can be nobody's donor, and is not clean itself.",
    revealed_by=_ORDINALS,
)

RESPONSE = Span(
    "pagewitness.response", 6, "What the engine told the client's side at the end: finish reason and token counts.", leg=True,
    fields=(Field(FINISH), Field(HTTP_STATUS, required=False), Field(INPUT_TOKENS), Field(OUTPUT_TOKENS), Field(DELIVERED)),
    variant=FINISH,
    absence="How many tokens reached the client is unknown.",
    revealed_by=_ORDINALS,
)

REQUEST_END = Span(
    "pagewitness.request.end", 7, "The last fact of a leg: how it ended, and the totals against which its evidence is complete.", leg=True,
    fields=(
        Field(END_STATE), Field(FACTS), Field(DESTINATION, required=False), Field(QUEUED_PAGES), Field(QUEUED_TOKENS),
        *_new(STEPS, ACQUIRED_PAGES),
    ),
    variant=END_STATE,
    absence="The leg counts as running, and, once its boot has ended or its agent is silent, as never ended.",
    revealed_by="A leg without one, before the time that its agent attests.",
)

EMITTER_STATUS = Span(
    "pagewitness.emitter", 8, "An agent's word on one boot it drains: how far, what was dropped, whether it lives.", leg=False,
    fields=(
        Field(SUBJECT), Field(SUBJECT_BOOT), Field(HIGH_WATER), Field(DROPS), Field(HOOK_ERRORS), Field(ATTESTED), Field(CLOSE),
        *_new(CLOCK_OFFSET, CLOCK_ERROR, ENGINE_REQUESTS),
    ),
    variant=CLOSE,
    absence="Nobody vouches for the boot: its legs stay pending, and become unknown when it is silent for too long.",
    revealed_by="The time since its last word; a later word replaces a lost one.",
)

PAGE_ACQUIRE = Span(
    "pagewitness.page.acquire", 9, "Exact tier: pages that a leg got from the free list.", leg=True, since=2,
    fields=(
        Field(PURPOSE), Field(PAGES), Field(ACQUIRED_FROM), Field(COMPONENT, required=False), Field(ROW, required=False),
        Field(ROW_GENERATION, required=False), Field(AFTER_SEQ, required=False), Field(GENERATION, required=False),
    ),
    variant=PURPOSE,
    absence="A page instance begins unseen: the page looks as if its last holder still had it.",
    revealed_by=_ORDINALS + " Pages: the total `acquired.pages` of `request.end`.",
)

PAGE_WRITE = Span(
    "pagewitness.page.write", 10, "What a completed forward or load wrote of a leg's token positions.", leg=True, since=2,
    fields=(Field(PURPOSE), Field(WRITTEN_START), Field(WRITTEN_END), Field(COMPONENT, required=False), Field(STORAGE, required=False)),
    variant=PURPOSE,
    absence="Positions that were written look unwritten.",
    revealed_by=_ORDINALS,
)

PAGE_SHARE = Span(
    "pagewitness.page.share", 11, "Pages passed between a leg and a prefix cache or a further tier of memory.", leg=True, since=2,
    fields=(
        Field(SHARE), Field(SHARED_TOKENS), Field(STORAGE), Field(KEY_COMPOSITION), Field(NAMESPACE, required=False),
        Field(COMPONENT, required=False), Field(AFTER_SEQ, required=False), Field(PAGES, required=False),
    ),
    variant=SHARE,
    absence="Reuse across namespaces goes unseen; that a prefix was reused at all is also in the release. `publish` is of the exact tier.",
    revealed_by=_ORDINALS,
)

SLOT_USE = Span(
    "pagewitness.slot.use", 12, "A metadata slot was filled or read, and which room its content names.", leg=True, since=2,
    fields=(Field(SLOT_OPERATION), Field(SLOT), Field(ROOM, required=False), Field(SLOT_ROOM, required=False)),
    variant=SLOT_OPERATION,
    absence="A first token or a length that belongs to another request goes unseen. The control tier has only slots that decode refused.",
    revealed_by=_ORDINALS,
)

PAGE_STEP = Span(
    "pagewitness.page.step", 13, "Exact tier: one forward of a batch: which rows took part, and what each read and wrote.", leg=False, since=2,
    fields=(Field(STEP_MODE), Field(ROWS), Field(ROW_GENERATIONS), Field(STEP_STARTS), Field(STEP_ENDS)),
    variant=STEP_MODE,
    absence="A step in which foreign pages may have been read is not in the record; `page.read` still bounds what was.",
    revealed_by=_SEQS + " Of one leg: the total `steps` of `request.end`.",
)

PAGE_FREE = Span(
    "pagewitness.page.free", 14, "Exact tier: pages went back to the free list.", leg=False, since=2,
    fields=(
        Field(FREE_CAUSE), Field(PAGES), Field(COMPONENT, required=False), Field(AFTER_SEQ, required=False),
        Field(GENERATION, required=False),
    ),
    variant=FREE_CAUSE,
    absence="A page looks held, or cached, when it is free.",
    revealed_by=_SEQS + " The next acquisition of the page has a generation that skips one.",
)

ENGINE_ALARM = Span(
    "pagewitness.alarm", 15, "What the engine, or a guard of ours, caught itself.", leg=True, legless=True, since=2,
    fields=(
        Field(ALARM), Field(ALARM_ACTION), Field(ALARM_REASON), Field(ROW, required=False), Field(POSITION, required=False),
        Field(SLOT, required=False), Field(PAGES, required=False),
    ),
    variant=ALARM,
    absence="The engine's own alarm is only in its log.",
    revealed_by=_ORDINALS + " Of one that names no leg: a hole in the boot's seqs.",
)

CANARY = Span(
    "pagewitness.canary", 16, "A planted marker was seen in a response.", leg=True, legless=True, since=2,
    fields=(Field(CANARY_ID), Field(CANARY_OWNER), Field(RESPONSE_ID, required=False), Field(RID, required=False)),
    absence="A proven leak goes unreported; the page evidence of it stands by itself.",
    revealed_by=_SEQS,
)

DELIVERY_FACT = Span(
    "pagewitness.delivery", 17, "What a vouching gateway handed to the client: its response id and the HTTP status that the client really got.", leg=False, since=2,
    fields=(
        Field(DELIVERY), Field(RESPONSE_ID), Field(RID, required=False), Field(TENANT), Field(TENANT_KEY, required=False), Field(TRAFFIC),
        Field(HTTP_STATUS, required=("complete",)), Field(CLIENT_SALT),
    ),
    variant=DELIVERY,
    absence="The status that the client got is unknown, and one response fewer is held against the engine's legs.",
    revealed_by=_SEQS,
)

SPANS: tuple[Span, ...] = (
    NODE_CONFIG, REQUEST_ADMISSION, TRANSFER, PAGE_READ, PAGE_RELEASE, RESPONSE, REQUEST_END, EMITTER_STATUS,
    PAGE_ACQUIRE, PAGE_WRITE, PAGE_SHARE, SLOT_USE, PAGE_STEP, PAGE_FREE, ENGINE_ALARM, CANARY, DELIVERY_FACT,
)
SPANS_BY_NAME: dict[str, Span] = {span.name: span for span in SPANS}
SPANS_BY_CODE: dict[int, Span] = {span.code: span for span in SPANS}


def fields_of(span: Span) -> tuple[Field, ...]:
    """Every field that a span of this kind may carry, common ones first."""
    if span.legless:
        of_leg = tuple(Field(one.attribute, required=False, since=one.since) for one in LEG_FIELDS)
    else:
        of_leg = LEG_FIELDS if span.leg else ()
    return COMMON_FIELDS + of_leg + span.fields


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
