"""What-if questions of people: searched for away from what acts, and never acted on."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from extender.console.capture import ConsoleSource
from extender.gang.plan.what_if import find_gang
from extender.gang.tell.what_ifs import WhatIf, WhatIfs
from extender.model.errors import InvalidInput, NotReady
from extender.model.plan import Plan, Refusal

MOST_MANIFEST = 1024 * 1024
"""Characters, as over gRPC."""
LEAST_PRIORITY, MOST_PRIORITY = -2_147_483_648, 2_147_483_647
MOST_COUNT = 100_000


class WhatIfRequest(Struct, frozen=True):
    """What a person asks."""

    gang: str
    """"" for the one that the manifest adds."""
    manifest: str = ""
    priority: int | None = None
    min_count: int | None = None
    cost_order: str = ""
    """In place of the configured one; "" for that."""

    @property
    def changed(self) -> bool:
        """Whether the gang is to be taken for another than it is."""
        return self.priority is not None or self.min_count is not None or bool(self.cost_order)


class Answered(Struct, frozen=True):
    """What would be done; ``changed`` with the changes asked for, None without any."""

    plain: Plan | Refusal
    changed: Plan | Refusal | None
    generation: int


class WhatIfAsker:
    """Asks, and waits for the answers. One event loop."""

    def __init__(self, source: ConsoleSource) -> None:
        self._source = source
        self._what_ifs = WhatIfs(source.settings, source.resolver, source.read_manifest)

    async def ask(self, asked: WhatIfRequest) -> Answered:
        """Return the answers; cancelled, the searches end as well.

        Raises InvalidInput for what is not understood, NotReady while gangs cannot be decided,
        TooManyAsked when others wait already.
        """
        if not asked.gang and not asked.manifest:
            raise InvalidInput("choose a gang, or give a manifest that adds one", "gang")
        stale = self._source.stale()
        if stale is not None:
            raise NotReady(stale)
        snapshot, holds = self._source.question()
        masks = {}
        if not asked.manifest:
            gang = self._source.resolver.resolve(find_gang(asked.gang, snapshot), snapshot)
            masks = dict(self._source.masks(gang, snapshot))
        question = WhatIf(
            gang=asked.gang,
            manifest=asked.manifest,
            snapshot=snapshot,
            holds=holds,
            masks=masks,
            seconds=self._source.settings.plan.seconds,
        )
        plain = await self._what_ifs.ask(question)
        changed = None
        if asked.changed:
            changed = await self._what_ifs.ask(
                replace(
                    question,
                    priority=asked.priority,
                    min_count=asked.min_count,
                    cost_order=asked.cost_order,
                )
            )
        return Answered(plain, changed, snapshot.generation)

    def close(self) -> None:
        """Take no more questions; what runs is told to stop."""
        self._what_ifs.close()
