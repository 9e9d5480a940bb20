"""What a script may be given beyond what its seed has drawn, so that seeds keep their stories."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from extender.model.settings import BindSettings
from tests.simulation.chance import Chance
from tests.simulation.script import Script


def with_more(script: Script, more: tuple[str, ...]) -> Script:
    """Return the script with more in it, drawn from its seed too. Raises KeyError."""
    for name in more:
        script = MORE[name](script, Chance(script.seed + 2_000_003))
    return script


def _barrier(script: Script, chance: Chance) -> Script:
    """The extender binds: kube-scheduler has an entry with a bindVerb (docs/barrier.md)."""
    bind = BindSettings(
        enabled=True,
        # Above kube-scheduler's own back-off: members that fail before would never meet else.
        hold_seconds=chance.pick("hold", (13.0, 25.0)),
        post_seconds=chance.pick("post", (2.0, 10.0)),
    )
    seats = replace(script.settings.seats, rollback=chance.pick("rollback", ("keep", "delete")))
    return replace(
        script,
        settings=replace(script.settings, bind=bind, seats=seats),
        slow_binds=script.slow_binds or chance.hit("slow-binds", 0.4),
        bind_fails=chance.pick("bind-fails", (0.0, 0.0, 0.2, 0.5)),
    )


MORE: dict[str, Callable[[Script, Chance], Script]] = {"barrier": _barrier}
