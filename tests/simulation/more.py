"""What a script may be given beyond what its seed has drawn, so that seeds keep their stories."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from extender.settings.fairness import FairnessSettings
from extender.settings.settings import BindSettings
from tests.simulation.announcing import announcing
from tests.simulation.budgeting import budgeting
from tests.simulation.chance import Chance
from tests.simulation.enforcing import enforcing
from tests.simulation.faults import (
    ALL,
    DELETES,
    PATCHES,
    RECORDS,
    REFUSED,
    SLOW,
    THROTTLED,
    Fault,
)  # fmt: skip
from tests.simulation.flakiness import flaky
from tests.simulation.happening import Happening
from tests.simulation.moments import near, with_happenings
from tests.simulation.objects import Work
from tests.simulation.priorities import priorities
from tests.simulation.profiles import profiles
from tests.simulation.resizing import resizes
from tests.simulation.restoring import restored
from tests.simulation.script import Script
from tests.simulation.squatting import by_rule, squatting


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


def _rollback(script: Script, chance: Chance) -> Script:
    """Members of a gang that runs in part are deleted, with or without the barrier."""
    return replace(
        script,
        settings=replace(script.settings, seats=replace(script.settings.seats, rollback="delete")),
        slow_binds=chance.hit("slow-binds", 0.5),
        bind_fails=chance.pick("bind-fails", (0.0, 0.2, 0.5)),
    )


EDITS = (
    "resize", "drop-group", "grow", "lessen", "suspend", "replace-pod", "unprotect", "unbudget",
    "flicker", "shrink", "touch-records", "drop-records", "drop-lease", "restart-scheduler",
)  # fmt: skip


def _edits(script: Script, chance: Chance) -> Script:
    """Groups, sizes, names, nodes, records and the lease are changed while plans are under way."""
    found = []
    # Records deleted by hand cannot be read after a crash, so the two do not meet.
    crashes = any(each.kind in ("crash", "stop") for each in script.happenings)
    kinds = [kind for kind in EDITS if not (crashes and kind == "drop-records")]
    for _ in range(chance.number("edits", 1, 4)):
        seconds = chance.pick("edit-number", (0.0, 0.05, 0.3, 1.0, 3.0))
        edit = Happening(
            kind=chance.pick("edit", kinds),
            at=0.0,
            name=chance.pick("edit-of", ("victim", "", "")),
            number=seconds,
        )
        found.append(near(chance, "edit", edit))
    return with_happenings(script, found)


def _minutes(script: Script, chance: Chance) -> Script:
    """Things that last for minutes: requests held off, graces."""
    at = chance.between("throttle-at", 0.3, 8.0)
    fault = Fault(
        at=at,
        until=at + chance.between("throttle-for", 30.0, 150.0),
        target=chance.pick("throttle-of", (ALL, DELETES, RECORDS, PATCHES)),
        kind=chance.pick("throttle", (THROTTLED, THROTTLED, SLOW, REFUSED)),
        share=chance.pick("throttle-share", (0.3, 0.7, 1.0)),
    )
    works = tuple(
        replace(work, grace=chance.pick("grace", (0, 20, 90)))
        if chance.hit("long-grace", 0.3)
        else work
        for work in script.works
    )
    last = max(script.last, fault.until)
    return replace(
        script,
        faults=(*script.faults, fault),
        works=works,
        last=last,
        end=max(script.end, last + 8.0),
    )


def _sparing(script: Script, chance: Chance) -> Script:
    """Evictions are judged by room that has come a moment ago.

    Not in every run: kube-scheduler's list may be some milliseconds older than the room, and a
    plan rests on the list.
    """
    return replace(script, sparing=True)


def _booking(script: Script, chance: Chance) -> Script:
    """Gangs that wait for seconds get a booked start (docs/fairness.md)."""
    fairness = FairnessSettings(
        booking=True,
        patience_seconds=chance.pick("booked-after", (1.0, 3.0, 10.0)),
        booked_per_domain=chance.number("booked", 1, 2),
        booked_per_namespace=2,
        idle_share=1.0,
        namespace_idle_share=1.0,
        min_runtime_seconds=chance.pick("least-runtime", ({}, {}, {"low": 5.0, "mid": 5.0})),
    )
    return replace(script, settings=replace(script.settings, fairness=fairness))


def _samples(script: Script, chance: Chance) -> Script:
    """kube-scheduler offers a part of the nodes, as it does where there are more than a hundred."""
    return replace(script, sample=chance.pick("sample", (1, 1, 2, 3)))


def _urgent(script: Script, chance: Chance) -> Script:
    """More urgent pods of no gang come while gangs are planned for and seated."""
    found = []
    for number in range(chance.number("urgent", 1, 2)):
        cls, cpu = chance.pick("urgent-class", ("high", "top")), chance.number("urgent-cpu", 1, 3)
        work = Work(name=f"urgent-{number}", size=1, cls=cls, cpu=cpu, gang=False)
        found.append(near(chance, "urgent", Happening(kind="arrive", at=0.0, work=work)))
    return replace(with_happenings(script, found), preempting=True)


MORE: dict[str, Callable[[Script, Chance], Script]] = {
    "announced": announcing,
    "barrier": _barrier,
    "booking": _booking,
    "budgets": budgeting,
    "edits": _edits,
    "enforcing": enforcing,
    "flaky": flaky,
    "minutes": _minutes,
    "priorities": priorities,
    "profiles": profiles,
    "resizes": resizes,
    "restored": restored,
    "rollback": _rollback,
    "samples": _samples,
    "sparing": _sparing,
    "squatters": squatting,
    "squatters-by-rule": by_rule,
    "urgent": _urgent,
}
