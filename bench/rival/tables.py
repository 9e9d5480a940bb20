"""Tables of a comparison: contenders side by side, over all cases or by kind of case."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bench.rival.anatomy import Losses
from bench.rival.bed import Rival
from bench.rival.comparison import BY_PRIORITY, FEWEST, WAP, Compared, Drawn
from bench.rival.outcome import ContenderOutcome, Damage

TITLES: dict[Rival, str] = {
    "workload-aware": "kube-scheduler, GenericWorkload on",
    "pod-by-pod": "kube-scheduler, pod by pod",
}
KINDS: Mapping[str, Callable[[Drawn], object]] = {
    "share of GPUs in gangs": lambda drawn: f"{drawn.gang_share:.0%}",
    "nodes": lambda drawn: drawn.nodes,
    "fill": lambda drawn: drawn.fill,
    "placement": lambda drawn: drawn.placement,
}
Had = Callable[[Compared], ContenderOutcome | None]
"""A contender's outcome of a case; None where it was not run."""
Line = Callable[[Compared], Damage | None]


def lines(compared: Sequence[Compared]) -> dict[str, Line]:
    """What stands side by side: title -> how to get the damage; None where it was not run."""
    return {
        "least": lambda each: each.plans[FEWEST].damage,
        "least, gangs by priority": lambda each: each.plans[BY_PRIORITY].damage,
        **{title: _harm(had) for title, had in contenders(compared).items()},
    }


def contenders(compared: Sequence[Compared]) -> dict[str, Had]:
    """Who took part in any case, with how to get the outcome."""
    orders = dict.fromkeys(order for each in compared for order in each.ours)
    there = {rival for each in compared for rival in each.rivals}
    return {
        **{f"extender, {order}": _ours(order) for order in orders},
        **{title: _theirs(rival) for rival, title in TITLES.items() if rival in there},
    }


def _ours(order: str) -> Had:
    return lambda each: each.ours.get(order)


def _theirs(rival: Rival) -> Had:
    return lambda each: each.rivals.get(rival)


def _harm(had: Had) -> Line:
    def damage(each: Compared) -> Damage | None:
        outcome = had(each)
        return None if outcome is None else outcome.damage

    return damage


def cases(compared: Sequence[Compared]) -> Iterator[str]:
    """One line a case."""
    columns = contenders(compared)
    yield "| case | gang | least | least, gangs by priority | " + " | ".join(columns) + " |"
    yield "| --- | ---: | ---: | --- |" + " --- |" * len(columns)
    for each in compared:
        fewest, least = each.plans[FEWEST], each.plans[BY_PRIORITY]
        texts = [str(fewest.damage.pods), _damage(least.damage)]
        for i, plan in enumerate((fewest, least)):
            if not plan.possible:
                texts[i] = "impossible"
            elif plan.proof != "optimal":
                texts[i] += f" ({plan.proof})"
        texts += [_cell(outcome(each), each.gang) for outcome in columns.values()]
        yield f"| {each.name} | {each.gang} | " + " | ".join(texts) + " |"


def _damage(damage: Damage) -> str:
    if not damage.pods:
        return "0"
    return f"{damage.pods} / {damage.gpus} / {damage.gangs}, {damage.highest}"


def _cell(outcome: ContenderOutcome | None, gang: int) -> str:
    if outcome is None:
        return "not run"
    text = _damage(outcome.damage)
    if outcome.damage.half_broken:
        text += f", *half {outcome.damage.half_broken}*"
    text += f", {outcome.seconds:.2f} s" if outcome.seconds is not None else ""
    if not outcome.ran:
        text += f", **no** ({outcome.members} of {gang})"
    return text + (f" ({outcome.problem})" if outcome.problem else "")


def sums(compared: Sequence[Compared]) -> Iterator[str]:
    """Everything over all cases, one line a contender."""
    yield (
        "| all cases together | pods | GPUs | gangs broken | of these half | gang ran "
        "| evicted for nothing | seconds, median | seconds, most |"
    )
    yield "| --- |" + " ---: |" * 8
    for title, order in (("least", FEWEST), ("least, gangs by priority", BY_PRIORITY)):
        possible = [each.plans[order].damage for each in compared if each.plans[order].possible]
        yield (
            f"| {title} | {sum(d.pods for d in possible)} | {sum(d.gpus for d in possible)} "
            f"| {sum(d.gangs for d in possible)} | 0 | {len(possible)} of {len(compared)} "
            "| 0 | | |"
        )
    for title, outcome in contenders(compared).items():
        found = [had for each in compared if (had := outcome(each)) is not None]
        times = [had.seconds for had in found if had.seconds is not None]
        yield (
            f"| {title} | {sum(o.damage.pods for o in found)} "
            f"| {sum(o.damage.gpus for o in found)} | {sum(o.damage.gangs for o in found)} "
            f"| {sum(o.damage.half_broken for o in found)} "
            f"| {sum(o.ran for o in found)} of {len(found)} "
            f"| {sum(o.for_nothing for o in found)} "
            f"| {statistics.median(times) if times else float('nan'):.2f} "
            f"| {max(times, default=float('nan')):.2f} |"
        )


def kinds(kind: str, compared: Sequence[Compared]) -> Iterator[str]:
    """Pods evicted by one property of the mix, and how many times ours the rival's are."""
    columns = lines(compared)
    ours = {f"extender, {order}": order for each in compared for order in each.ours}
    ratios = [title for title in ours if any(WAP in each.rivals for each in compared)]
    heads = [*columns, *(f"GenericWorkload / {ours[title]}" for title in ratios)]
    yield f"| {kind} | cases | " + " | ".join(heads) + " |"
    yield "| --- |" + " ---: |" * (1 + len(heads))
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        if each.drawn is not None:
            groups.setdefault(str(KINDS[kind](each.drawn)), []).append(each)
    for name, found in {**groups, "all": list(compared)}.items():
        texts = [str(len(found))]
        texts += [
            str(sum(d.pods for each in found if (d := line(each)))) for line in columns.values()
        ]
        texts += [times(found, ours[title]) for title in ratios]
        yield f"| {name} | " + " | ".join(texts) + " |"


def times(compared: Iterable[Compared], order: str, rival: Rival = WAP) -> str:
    """How many times our pods the rival evicted, where both got the gang to run."""
    both = [each for each in compared if each.both_ran(order, rival)]
    ours = sum(each.ours[order].damage.pods for each in both)
    theirs = sum(each.rivals[rival].damage.pods for each in both)
    return f"{theirs / ours:.1f}" if ours else f"{theirs} to 0"


def priorities(compared: Sequence[Compared]) -> Iterator[str]:
    """Pods evicted at each priority."""
    columns = lines(compared)
    levels = sorted(
        {
            priority
            for each in compared
            for line in columns.values()
            if (damage := line(each)) is not None
            for priority in damage.by_priority
        }
    )
    yield "| pods evicted of priority | " + " | ".join(map(str, levels)) + " |"
    yield "| --- |" + " ---: |" * len(levels)
    for title, line in columns.items():
        found = [damage for each in compared if (damage := line(each)) is not None]
        counts = [sum(d.by_priority.get(level, (0, 0))[1] for d in found) for level in levels]
        yield f"| {title} | " + " | ".join(map(str, counts)) + " |"


def losses(compared: Sequence[Compared]) -> Iterator[str]:
    """Where GenericWorkload's pods come from, by share of gangs."""
    yield (
        "| share of GPUs in gangs | cases with evictions | free seats for members | of them used "
        "| least | least on random nodes | least on its nodes | evicted | placement | pruning |"
    )
    yield "| --- |" + " ---: |" * 9
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        if each.drawn is not None and each.anatomy is not None and each.anatomy.evicted:
            groups.setdefault(f"{each.drawn.gang_share:.0%}", []).append(each)
    everything = [each for found in groups.values() for each in found]
    for name, found in {**groups, "all": everything}.items():
        lost = Losses.of(each.anatomy for each in found if each.anatomy is not None)
        yield (
            f"| {name} | {lost.cases} | {lost.free_seats} | {lost.free_used} | {lost.least} "
            f"| {lost.at_random:.0f} | {lost.least_there} | {lost.evicted} "
            f"| {lost.by_placement:.2f} | {lost.by_pruning:.2f} |"
        )
