"""The stories that captures are made of: what happens, on what pair, and what must come of it."""

from __future__ import annotations

from lab.engine.stories import aborted, disconnected, fake, killed, oversized, prefix, ranks, retracted
from lab.engine.stories.story import Story

STORIES: dict[str, Story] = {
    story.name: story
    for story in (
        oversized.STORY,
        fake.STORY,
        ranks.STORY,
        disconnected.STORY,
        aborted.STORY,
        retracted.STORY,
        prefix.STORY,
        prefix.DECODE_STORY,
        killed.STORY,
    )
}
"""By name."""
