"""What is to happen in a simulation, drawn from its seed before it begins."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from extender.model.gang import UNIT_ALL, UNIT_SINGLE
from extender.settings.policy import DEFAULT, WHOLE_GANGS, PolicySettings
from extender.settings.settings import (
    CacheSettings,
    EvictionSettings,
    GroupSettings,
    PlanSettings,
    SeatSettings,
    Settings,
)
from tests.simulation import dialects, faults, troubles
from tests.simulation.chance import Chance
from tests.simulation.faults import Fault
from tests.simulation.happening import MOMENTS, Happening
from tests.simulation.objects import Work
from tests.simulation.size import MIXED, size_of
from tests.simulation.troubles import Scene

NODE_CPU = 4
FLAPS, FLAP_SECONDS = 4, 12.0
"""How often a flapping watch is cut, and how long it stays open in between."""

SUSPENDED = 120.0
"""Seconds for which a gang is left alone whose plans are given up: well within the patience."""


class Script(Struct, frozen=True, kw_only=True):
    """All of it. What a shrunk script leaves out draws nothing that the rest would draw."""

    seed: int
    nodes: dict[str, int]
    happenings: tuple[Happening, ...]
    faults: tuple[Fault, ...]
    settings: Settings
    last: float
    """When the last thing happens that is planned for a time."""
    end: float
    """From then on nothing happens that is not caused by what has happened."""
    works: tuple[Work, ...] = ()
    """Running from the beginning."""
    latency: float = 0.02
    lag: float = 0.05
    scheduler_lag: float = 0.05
    slow: float = 0.02
    """Longest time a search takes."""
    period: float = 0.5
    sparing: bool = False
    """Nobody may be evicted beside room, however short a time ago it came."""
    preempting: bool = False
    """Pods of no gang are judged by whether they could preempt, and not by free room alone."""
    bind_fails: float = 0.0
    shuffle: bool = False
    slow_binds: bool = False
    """Binds take about a second, not a few milliseconds."""
    replicas: bool = False
    """Two extenders and a lease."""
    small_objects: bool = False
    """The API server takes small objects only."""
    few_sources: bool = False
    """The extender looks for no groups but those there are here."""
    flaky: bool = False
    """What MORE["flaky"] draws happens to it."""
    sample: int = 0
    """Nodes that kube-scheduler looks for at least, and so how many there are before it offers a
    part; 0: as many as in truth, a hundred."""
    squatters: bool = False
    """Pods of another namespace come without being scheduled, and kubelets refuse what does not
    fit."""
    profiles: tuple[str, ...] = ()
    """Scheduler names of pods, one after the other; none: the default."""
    doubled: float = 0.0
    """Share of the questions of kube-scheduler that are asked twice."""
    size: str = "large"
    quiet: float = 6.0
    """Calm is when nothing has changed for this long."""


def write(seed: int, size: str = MIXED) -> Script:
    """Return the script of a seed; ``size``: one of size.SIZES."""
    return _Writer(seed, size).script()


class _Writer:
    def __init__(self, seed: int, size: str) -> None:
        self._seed = seed
        self._chance = Chance(seed)
        self._size = size_of(self._chance, size)
        self._count = 0
        self._whole = self._chance.hit("unit", 0.7)
        """Whether gangs of dialects that do not say so go whole by configuration."""

    def script(self) -> Script:
        chance = self._chance
        size = self._size
        nodes = {f"n{i}": NODE_CPU for i in range(chance.number("nodes", *size.nodes))}
        works = self._running(nodes)
        happenings = self._arrivals() + self._events()
        happenings += self._process()
        planned = self._faults(works)
        urgent = next(h.work for h in happenings if h.work is not None and h.work.gang)
        trouble = troubles.draw(chance, Scene(self._name, urgent, size.trouble, size.pace))
        works = trouble.running(works)
        if trouble.urgent is not None:
            happenings = [
                replace(h, work=trouble.urgent) if h.work is urgent else h for h in happenings
            ]
        blinded = troubles.blinded(chance)
        happenings += trouble.happenings + blinded.happenings
        planned += trouble.faults + blinded.faults
        last = max((h.at for h in happenings if not h.after), default=0.0)
        if any(h.kind == "flap" for h in happenings):
            last += FLAPS * FLAP_SECONDS
        last = max(last, *(f.until for f in planned if f.until < faults.LASTING), 1.0)
        replicas = chance.hit("replicas", 0.04)
        return Script(
            seed=self._seed,
            nodes=nodes,
            works=tuple(works),
            happenings=tuple(sorted(happenings, key=lambda h: h.at)),
            faults=tuple(planned),
            settings=self._settings(blinded.stale),
            last=last,
            end=max(size.least, last + 8.0),
            size=size.name,
            few_sources=size.few_sources,
            quiet=size.quiet,
            # The lease is short here: an API server that is always slow would let nobody keep it.
            latency=min(chance.pick("latency", (0.005, 0.02, 0.1, 0.6)), 0.1 if replicas else 0.6),
            lag=chance.pick("lag", (0.01, 0.05, 0.3, 1.5)),
            scheduler_lag=chance.pick("scheduler-lag", (0.01, 0.05, 0.3)),
            slow=chance.pick("slow", (0.005, 0.05, 0.3, 3.0)),
            period=chance.pick("period", (0.3, 0.6, 1.0)),
            bind_fails=chance.pick("bind-fails", (0.0, 0.0, 0.0, 0.2)),
            shuffle=chance.hit("shuffles", 0.3),
            slow_binds=trouble.slow_binds,
            replicas=replicas,
            small_objects=chance.hit("small-objects", 0.06),
        )

    def _settings(self, stale: float) -> Settings:
        chance = self._chance
        stale = stale or chance.pick("stale", (3.0, 8.0))
        return Settings(
            cache=CacheSettings(stale_seconds=stale, stall_seconds=30.0),
            groups=GroupSettings(
                settle_seconds=0.3,
                unit=dict.fromkeys(dialects.CONFIGURED, UNIT_ALL if self._whole else UNIT_SINGLE),
            ),
            plan=PlanSettings(patience_seconds=30.0, retry_seconds=1.0),
            policy=PolicySettings(opt_out={DEFAULT: WHOLE_GANGS}),
            seats=SeatSettings(
                # kube-scheduler's own back-off is up to 10 s, so less would be a promise broken
                # by configuration.
                bind_seconds=chance.pick("bind-seconds", (20.0, 40.0)),
                victim_slack_seconds=chance.pick("slack", (2.0, 5.0)),
                # So that a gang that was suspended can still show that it runs.
                suspend_seconds=SUSPENDED,
            ),
            eviction=EvictionSettings(
                concurrency=chance.pick("concurrency", (1, 2, 32)),
                attempts=chance.pick("attempts", (2, 5)),
            ),
        )

    # -- works --------------------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _work(self, classes: tuple[str, ...], *, gang: bool, most: int) -> Work:
        chance = self._chance
        size = chance.number("size", 2, most) if gang else 1
        quorum = size
        if gang and chance.hit("surplus", 0.15):
            quorum = size - 1
        if gang and chance.hit("basic", 0.12):
            quorum = 0
        dialect = dialects.drawn(chance, quorum) if gang else dialects.CORE
        if quorum and dialect in dialects.SIZELESS:
            quorum = size
        return Work(
            name=self._name("g" if gang else "p"),
            size=size,
            cls=chance.pick("class", classes),
            cpu=chance.pick("cpu", self._size.cpus),
            gang=gang,
            quorum=quorum if gang else 0,
            dialect=dialect,
            whole=dialects.whole(dialect, drawn=chance.hit("whole", 0.8), configured=self._whole),
            again=chance.hit("again", 0.7),
            grace=chance.pick("grace", (0, 0, 1, 3, 6)),
            held=chance.hit("held", 0.04),
        )

    def _running(self, nodes: dict[str, int]) -> list[Work]:
        chance = self._chance
        free = dict(nodes)
        found = []
        for _ in range(chance.number("running", *self._size.running)):
            gang = chance.hit("running-gang", 0.75)
            work = self._work(self._size.lower, gang=gang, most=min(len(nodes), 4))
            on = []
            left = dict(free)
            for _ in range(work.size):
                room = [name for name in left if left[name] >= work.cpu]
                if not room:
                    break
                node = max(room, key=lambda name: left[name])
                left[node] -= work.cpu
                on.append(node)
            if len(on) == work.size:
                free = left
                found.append(replace(work, on=tuple(on)))
        return found

    def _arrivals(self) -> list[Happening]:
        chance, size = self._chance, self._size
        found = []
        at = self._at("first", 0.5, 3.0)
        for _ in range(chance.number("arrivals", 1, size.arrivals)):
            work = self._work(size.urgent, gang=True, most=size.members)
            found.append(Happening(at=at, kind="arrive", work=work))
            at += chance.draw("apart") ** 3 * 12.0 * size.pace
        for _ in range(chance.number("singles", 0, size.singles)):
            work = self._work(("low", "mid", "high", "top"), gang=False, most=1)
            at = self._at("single", 0.5, 10.0)
            found.append(Happening(at=at, kind="arrive", work=work))
        return found

    # -- what people and machines do ------------------------------------------------------------

    def _at(self, stream: str, low: float, high: float) -> float:
        """A time of the story."""
        return self._chance.between(stream, low, high) * self._size.pace

    def _when(self, stream: str) -> dict[str, float | str | int]:
        """A moment to follow closely, or any time."""
        chance = self._chance
        if chance.hit(stream, 0.7):
            after = chance.pick(f"{stream}-moment", MOMENTS)
            pause = chance.draw(f"{stream}-pause") ** 3 * 1.5
            nth = 1 + int(chance.draw(f"{stream}-nth") ** 2 * 4)
            return {"at": pause, "after": after, "nth": nth}
        return {"at": self._at(f"{stream}-time", 0.5, 14.0)}

    def _events(self) -> list[Happening]:
        chance = self._chance
        kinds = (
            "delete-member",
            "delete-member",
            "delete-victim",
            "withdraw",
            "cordon",
            "cordon",
            "delete-node",
            "add-node",
            "protect",
            "budget",
            "uncordon",
            "finish",
        )
        found = []
        for _ in range(int(chance.draw("events") ** 1.5 * (self._size.events + 1))):
            kind = chance.pick("event", kinds)
            when = self._when("event")
            found.append(Happening(kind=kind, **when))  # type: ignore[arg-type]
            if kind == "cordon" and chance.hit("event-uncordon", 0.5):
                at = self._at("event-back", 8.0, 20.0)
                found.append(Happening(kind="uncordon", at=at))
        return found

    def _process(self) -> list[Happening]:
        """What happens to the extender's process and its watches."""
        chance = self._chance
        found = []
        if chance.hit("crash", 0.35):
            for _ in range(chance.number("crashes", 1, 2)):
                steps = chance.number("crash-steps", 0, 40)
                when = self._when("crash-at")
                kind = "stop" if chance.hit("crash-stop", 0.25) else "crash"
                found.append(Happening(kind=kind, number=steps, **when))  # type: ignore[arg-type]
        if chance.hit("watches", 0.3):
            kind = chance.pick(
                "watch", ("cut", "break", "expire", "silent", "flap", "lose-storage")
            )
            resource = chance.pick("watch-of", ("pods", "nodes", ""))
            when = self._when("watch-at")
            if kind == "flap":
                when = {"at": chance.between("watch-flap", 2.0, 6.0)}
            seconds = self._at("watch-silent", 1.0, 8.0)
            found.append(
                Happening(kind=kind, name=resource, number=seconds, **when)  # type: ignore[arg-type]
            )
        if chance.hit("clock", 0.1):
            number = chance.pick("clock-jump", (-3600.0, -5.0, 5.0, 120.0, 86400.0))
            found.append(
                Happening(kind="clock", number=number, **self._when("clock-at"))  # type: ignore[arg-type]
            )
        return found

    def _faults(self, works: list[Work]) -> list[Fault]:
        chance = self._chance
        found = []
        for _ in range(int(chance.draw("faults") ** 1.3 * (self._size.faults + 1))):
            at = self._at("fault-at", 0.3, 10.0)
            found.append(
                Fault(
                    at=at,
                    until=at + chance.draw("fault-for") ** 2 * 12.0 + 0.2,
                    target=chance.pick("fault-target", faults.TARGETS),
                    kind=chance.pick("fault-kind", faults.KINDS),
                    share=chance.pick("fault-share", (0.2, 0.5, 1.0)),
                )
            )
        # Streams of its own: the seeds that do not draw it keep their stories.
        if chance.hit("conflict", 0.1):
            at = self._at("conflict-at", 0.3, 10.0)
            found.append(
                Fault(
                    at=at,
                    until=at + chance.draw("conflict-for") ** 2 * 12.0 + 0.2,
                    target=chance.pick("conflict-of", faults.CONFLICTING),
                    kind=faults.CONFLICT,
                    share=chance.pick("conflict-share", (0.2, 0.5, 1.0)),
                )
            )
        gangs = [work for work in works if work.gang]
        if gangs and chance.hit("denied", 0.12):
            work = chance.pick("denied-work", gangs)
            pod = f"{work.name}-{chance.number('denied-pod', 0, work.size - 1)}"
            lasting = chance.hit("denied-lasting", 0.5)
            found.append(
                Fault(
                    at=0.0,
                    until=1e9 if lasting else self._at("denied-until", 8.0, 25.0),
                    target=faults.DELETES,
                    kind=chance.pick("denied-kind", (faults.DENIED, faults.REFUSED, faults.SILENT)),
                    pod=pod,
                )
            )
        return found
