"""``MORE["flaky"]``: which of the mishaps (mishaps.py) and lasting faults a seed gets."""

from __future__ import annotations

from msgspec.structs import replace

from tests.simulation import faults
from tests.simulation.chance import Chance
from tests.simulation.faults import Fault
from tests.simulation.happening import Happening
from tests.simulation.moments import near
from tests.simulation.objects import Work
from tests.simulation.script import Script

KINDS = (
    "freeze", "freeze", "clocks", "lose-kubelet", "lift", "lose-answers", "ask-again",
    "remake-node", "remake-namespace", "loosen", "spoil-records", "silent", "break", "crash",
    "restart-scheduler",
)  # fmt: skip
UNSEEN = ("podgroups", "poddisruptionbudgets", "priorityclasses", "pods", "nodes")
LEASE_FAULTS = (
    faults.SLOW, faults.LATE, faults.DONE_SILENT, faults.DONE_FAILED, faults.THROTTLED,
    faults.SILENT,
)  # fmt: skip
PATCH_FAULTS = (faults.DENIED, faults.SILENT, faults.REFUSED)


def flaky(script: Script, chance: Chance) -> Script:
    """One to four mishaps, close to a moment that matters; longer refusals; restarting owners."""
    replicas = script.replicas or chance.hit("replicas", 0.25)
    found = [_mishap(chance) for _ in range(chance.number("mishaps", 1, 4))]
    planned = list(_faults(chance, replicas=replicas))
    last = max(
        script.last,
        *(each.at for each in found if not each.after),
        *(fault.until for fault in planned),
        0.0,
    )
    restarting = chance.hit("restarting", 0.3)

    def owned(work: Work) -> Work:
        again = work.gang and work.again and restarting
        return replace(work, restarts=True) if again else work

    happenings = [
        each if each.work is None else replace(each, work=owned(each.work))
        for each in script.happenings
    ]
    return replace(
        script,
        flaky=True,
        replicas=replicas,
        # The lease is short here: an API server that is always slow would let nobody keep it.
        latency=min(script.latency, 0.1) if replicas else script.latency,
        works=tuple(map(owned, script.works)),
        happenings=tuple(sorted((*happenings, *found), key=lambda each: each.at)),
        faults=(*script.faults, *planned),
        last=last,
        end=max(script.end, last + 8.0),
    )


def _mishap(chance: Chance) -> Happening:
    kind = chance.pick("mishap", KINDS)
    seconds = chance.pick("mishap-seconds", (0.05, 0.5, 2.0, 5.0, 12.0))
    name = chance.pick("mishap-of", UNSEEN) if kind in ("silent", "break") else ""
    steps = chance.number("mishap-steps", 0, 40)
    mishap = Happening(kind=kind, at=0.0, name=name, number=steps if kind == "crash" else seconds)
    return near(chance, "mishap", mishap)


def _faults(chance: Chance, *, replicas: bool) -> list[Fault]:
    found = []
    if replicas:
        at = chance.between("lease-at", 0.5, 10.0)
        found.append(
            Fault(
                at=at,
                until=at + chance.between("lease-for", 1.0, 15.0),
                target=faults.LEASES,
                kind=chance.pick("lease-fault", LEASE_FAULTS),
                share=chance.pick("lease-share", (0.3, 0.7, 1.0)),
            )
        )
    if chance.hit("patches", 0.15):
        found.append(
            Fault(
                at=chance.between("patches-at", 0.0, 5.0),
                until=chance.between("patches-until", 10.0, 60.0),
                target=faults.PATCHES,
                kind=chance.pick("patches-fault", PATCH_FAULTS),
            )
        )
    return found
