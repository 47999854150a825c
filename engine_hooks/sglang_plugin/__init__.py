"""pagewitness inside SGLang: an entry point of the group `sglang.srt.plugins`.

The flow: `register` decides whether this process records (`process`), looks up every hook point of the running version
(`table`, `targets`), wraps the hooks (`boundary`), hands them to the engine's registry (`attach`). When the scheduler
is built, `node` opens the ring. Then each part turns what it sees into facts, all through the leg of the request
(`legs`): `admission`, `transfer`, `steps`, `release`, `response`.

The package imports neither sglang nor torch nor numpy until it runs inside them.
"""

from __future__ import annotations

import logging
import os
from functools import partial

from engine_hooks.settings import Settings, SettingsError, load

log = logging.getLogger(__name__)


def register() -> None:
    """Attach the hooks. Called by SGLang in each of its processes; never raises, whatever is set or missing."""
    try:
        from engine_hooks.sglang_plugin.process import inherit_node_boot, is_scheduler

        settings = load(scope="hooks")
        if not settings.hooks:
            return
        node_boot = inherit_node_boot(os.environ)
        if is_scheduler():
            _attach(settings, node_boot)
    except Exception as error:  # noqa: BLE001 - whatever it is, the engine starts without us
        # The sentence says what to do; a traceback in an engine's log reads like a fault of the engine.
        log.error("pagewitness: nothing is recorded in this process: %s: %s", type(error).__name__, error)  # noqa: TRY400


def _attach(settings: Settings, node_boot: bytes) -> None:
    if settings.evidence_key is None:
        raise SettingsError(["PAGEWITNESS_EVIDENCE_KEY is not set: give every node the same key, as id:hex"])
    import sglang
    from sglang.srt.plugins import hook_registry

    from engine_hooks.recorder import Recorder
    from engine_hooks.ring import Ring
    from engine_hooks.sglang_plugin.attach import attach_version
    from engine_hooks.sglang_plugin.kill_file import KillFile
    from engine_hooks.sglang_plugin.parts import build
    from engine_hooks.sglang_plugin.place import Host
    from engine_hooks.sglang_plugin.standstill import Standstill

    def open_recorder(name: str) -> Recorder:
        return Recorder(Ring.create(settings.ring_dir, f"{settings.emitter}/{name}", settings.ring_bytes))

    host = Host(settings.emitter, settings.region)
    make = partial(build, settings.evidence_key, settings.mac_keys, node_boot, open_recorder, settings.tier, host)
    parts = make()
    if settings.kill_file is not None:
        standstill = Standstill(parts, make)
        parts.boundary.kill_file = KillFile(settings.kill_file, standstill.stop, standstill.go)
    parts.node.attachment = attach_version(
        sglang.__version__, settings.tier, parts.handlers, parts.boundary, hook_registry
    )
