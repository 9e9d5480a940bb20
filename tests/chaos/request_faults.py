"""The way to the API server: delayed, lost, repeated and refused requests, and watches cut."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.chaos.injecting import MOMENT_SECONDS, Act, Injection, Kinds
from tests.chaos.invariants import preemptor_of
from tests.chaos.pod_faults import PodFaults
from tests.chaos.proxy import Call, Harm, Rule


class RequestFaults:
    """``cancel(group, why)`` takes a group away as its user would."""

    def __init__(
        self, injection: Injection, pods: PodFaults, cancel: Callable[[str, str], None]
    ) -> None:
        self._injection = injection
        self._pods = pods
        self._cancel = cancel

    def kinds(self) -> Kinds:
        """Return what is drawn from."""
        found: Kinds = {
            "requests delayed": (3, self._rule("delay", "requests delayed", _anything)),
            "writes delayed": (2, self._rule("delay", "writes delayed", _writes)),
            "answers lost": (3, self._rule("lose", "answers lost", _writes)),
            "done but answered 500": (3, self._rule("unclear", "done but answered 500", _writes)),
            "requests repeated": (2, self._rule("repeat", "requests repeated", _writes)),
            "requests held": (2, self._rule("hold", "requests held", _anything)),
            "requests late": (2, self._rule("hold", "requests late", _writes, late=True)),
            "watches cut": (4, self._cut_watches),
            "one pod's DELETE refused": (5, self._refuse_one_pod),
            "plan ended amid its evictions": (8, self._end_amid_evictions),
        }
        for status in (403, 409, 429, 500, 503):
            kind = f"writes refused {status}"
            found[kind] = (1, self._rule("refuse", kind, _writes, status=status))
        for status in (409, 429, 503):
            kind = f"plan records refused {status}"
            found[kind] = (1, self._rule("refuse", kind, _records, status=status))
        return found

    def _rule(
        self,
        harm: Harm,
        kind: str,
        meant: Callable[[Call], bool],
        *,
        status: int = 500,
        late: bool = False,
    ) -> Act:
        async def act(rng: random.Random) -> None:
            chance, seconds = rng.choice((0.2, 0.5, 1.0)), rng.uniform(2.0, 8.0)
            rule = Rule(harm, meant, chance, rng.choice((0.3, 1.5, 4.0)), status, late)
            await self._impose(rule, kind, f"{chance:.0%} of them for {seconds:.1f} s", seconds)

        return act

    async def _refuse_one_pod(self, rng: random.Random) -> None:
        """Refuse the real eviction of some pods only, after a rehearsal that went well."""
        status, seconds = rng.choice((403, 429, 500, 503)), rng.choice((5.0, 10.0, 30.0))
        share, rest = rng.choice((2, 2, 3)), rng.randint(0, 3)

        def meant(call: Call) -> bool:
            return call.kind == "eviction" and sum(call.name.encode()) % share == rest % share

        detail = f"{status} for one pod in {share}, {seconds:.1f} s"
        await self._impose(
            Rule("refuse", meant, status=status), "one pod's DELETE refused", detail, seconds
        )

    async def _end_amid_evictions(self, rng: random.Random) -> None:
        """Let the first evictions through and no more; then whom they are for goes away."""
        count, status = rng.choice((1, 1, 2)), rng.choice((429, 500, 503))
        through: set[str] = set()
        evicted: list[str] = []

        def meant(call: Call) -> bool:
            if call.kind == "eviction" and len(through) < count:
                through.add(call.name)
            return call.kind == "eviction" and call.name not in through

        def passed(call: Call) -> None:
            if call.kind == "eviction":
                evicted.append(call.name)

        detail = f"{status} for all evictions after {count}"
        async with self._injection.fault(
            "plan ended amid its evictions", detail, blinds=True
        ) as fault:
            rule = Rule("refuse", meant, status=status)
            self._injection.bed.proxy.impose(rule)
            self._injection.bed.proxy.passed.append(passed)
            for _ in range(int(MOMENT_SECONDS / 0.2)):
                if (evicted and rule.hits) or self._injection.stop.is_set():
                    break
                await self._injection.pause(0.2)
            await self._injection.pause(rng.uniform(0.2, 1.0))
            preemptor = self._preemptor_of(evicted)
            if preemptor and rng.random() < 0.7:
                self._cancel(preemptor, "is cancelled by its user while it evicts")
            elif preemptor:
                await self._pods.delete_waiting(rng)
            await self._injection.pause(rng.uniform(1.0, 4.0))
            self._injection.bed.proxy.passed.remove(passed)
            self._injection.bed.proxy.lift(rule)
            fault.hits = rule.hits

    def _preemptor_of(self, victims: list[str]) -> str:
        """The gang that some of these pods go for, as their condition tells."""
        for life in self._injection.history.pods.values():
            if life.seen.name in victims and life.disrupted:
                preemptor = preemptor_of(self._injection.history, life)
                if preemptor is not None and preemptor.present:
                    return preemptor.spec.name
        return ""

    async def _impose(self, rule: Rule, kind: str, detail: str, seconds: float) -> None:
        async with self._injection.fault(kind, detail, blinds=True) as fault:
            self._injection.bed.proxy.impose(rule)
            try:
                await self._injection.pause(seconds)
            finally:
                self._injection.bed.proxy.lift(rule)
                fault.hits = rule.hits

    async def _cut_watches(self, rng: random.Random) -> None:
        """Cut all watches, perhaps again and again, perhaps without letting new ones through."""
        times, closed = rng.choice((1, 1, 4)), rng.random() < 0.3
        detail = f"{times} times" + (", new ones are held" if closed else "")
        async with self._injection.fault("watches cut", detail, blinds=True) as fault:
            rule = Rule("hold", lambda call: call.kind == "watch")
            if closed:
                self._injection.bed.proxy.impose(rule)
            fault.hits = 0
            for _ in range(times):
                fault.hits += self._injection.bed.proxy.cut_watches()
                await self._injection.pause(rng.uniform(0.5, 2.0) if times > 1 or closed else 0.0)
            self._injection.bed.proxy.lift(rule)


def _anything(call: Call) -> bool:
    return call.kind != "watch"


def _writes(call: Call) -> bool:
    return call.writes


def _records(call: Call) -> bool:
    return call.kind == "record"
