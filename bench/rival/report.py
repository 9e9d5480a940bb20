"""A run as Markdown: its tables, and the answers to what was asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.rival import tables
from bench.rival.anatomy import DRAWS
from bench.rival.comparison import (
    FEWEST,
    WAP,
    Compared,
    Run,
    broken_promises,
    pods_in_both,
)
from bench.rival.outcome import Damage


def report(run: Run) -> str:
    """Return the whole report, with headings of the second level."""
    named = [each for each in run.compared if each.drawn is None]
    mixed = [each for each in run.compared if each.drawn is not None]
    lines = [
        "## The run",
        "",
        f"- Machine: {run.machine}",
        f"- Versions: {run.versions}",
        f"- Input: {run.input}",
        f"- Command: `{run.command}` ({run.seconds:.0f} s)",
        "",
        *_reading(),
        "",
        "## What was asked",
        "",
        *_answers(run, named, mixed),
    ]
    if mixed:
        lines += ["", f"## Trace mix, {len(mixed)} cases", "", *tables.sums(mixed)]
        lines += ["", "Pods evicted, by what the cases were drawn with:"]
        for kind in tables.KINDS:
            lines += ["", *tables.kinds(kind, mixed)]
        lines += ["", *tables.priorities(mixed)]
        if any(each.anatomy is not None for each in mixed):
            lines += ["", "## Where its pods come from", "", *_anatomy(), ""]
            lines += tables.losses(mixed)
    if named:
        lines += ["", "## Named cases", "", *tables.cases(named)]
    for size in sorted({each.drawn.nodes for each in mixed if each.drawn is not None}):
        found = [each for each in mixed if each.drawn is not None and each.drawn.nodes == size]
        lines += ["", f"## Every case of the trace mix at {size} nodes", "", *tables.cases(found)]
    return "\n".join(lines) + "\n"


def _reading() -> list[str]:
    return [
        "Every contender starts from the same state, made anew for it, with victims of grace 0.",
        "`least` is the fewest pods that have to go, `least, gangs by priority` what that order",
        "(priorities before numbers) has to take; both are the offline plan's, proved",
        "unless it says otherwise. A cell reads pods / GPUs / gangs evicted, highest priority",
        "hit, seconds from the gang's creation to its last binding. **no**: the gang does not",
        "run, and how many of its members do. *half n*: n gangs lost some members and kept",
        "others. Cases of the mix are named by nodes, share of gangs, placement, fill, members",
        "and seed. A ratio counts the cases in which both got the gang to run.",
        "",
        "To be known when reading: there are no kubelets (kwok plays them), so a pod runs as soon",
        "as it is bound and goes as soon as it is deleted. All victims started within seconds of",
        "each other, offline they have no age at all: where gangs and pods at every priority are",
        "equal, the GPUs of the plan and of what was evicted may therefore differ. kube-scheduler",
        "looks at every node (`percentageOfNodesToScore: 100`) and breaks ties between nodes at",
        "random: its numbers differ from run to run. Victims do not depend on how busy the",
        "machine was; seconds do.",
    ]


def _anatomy() -> list[str]:
    return [
        "GenericWorkload's cases with evictions. `least on its nodes`: the fewest pods that have",
        "to go when the members may sit on no other nodes than those it chose (proved). What lies",
        "between `least` and that is its placement (`placement`: times more); what lies between",
        "that and `evicted` could have stayed at its own placement (`pruning`: times more).",
        "`least on random nodes`: the same for nodes drawn evenly from those that take a member",
        f"once everybody less urgent has gone, mean of {DRAWS} draws. `free seats`: members that",
        "would sit without any eviction, at most the gang's number.",
    ]


def _answers(run: Run, named: Sequence[Compared], mixed: Sequence[Compared]) -> Iterator[str]:
    shares = sorted({each.drawn.gang_share for each in mixed if each.drawn is not None})
    for rival, title in tables.TITLES.items():
        if not any(rival in each.rivals for each in run.compared):
            continue
        for order in run.orders:
            parts = [
                (
                    f"trace mix, {share:.0%} in gangs",
                    [each for each in mixed if each.drawn and each.drawn.gang_share == share],
                )
                for share in shares
            ]
            parts += [("trace mix, all", list(mixed))] if len(shares) > 1 else []
            parts += [("named cases", list(named))] if named else []
            for what, found in parts:
                cases, ours, theirs = pods_in_both(found, order, rival)
                yield (
                    f"- {what}: {ours} pods by the extender ({order}), {theirs} by {title}, in "
                    f"{cases} cases: {tables.times(found, order, rival)} times"
                )
            more = [each for each in run.compared if each.more_than(order, rival)]
            yield (
                f"- Cases in which the extender ({order}) evicted more pods than {title}: "
                f"{len(more) or 'none'}"
            )
            if order != FEWEST or rival != WAP:
                yield from (_why(each, order, each.rivals[rival].damage) for each in more)
            if rival == WAP:
                dearer = [each.name for each in run.compared if each.dearer_than(order, rival)]
                yield (
                    f"- Cases in which what it evicted costs more, in the order {order}, than "
                    f"what {title} evicted: {', '.join(dearer) or 'none'}"
                )
    for order in run.orders:
        equal = sum(each.as_planned(order) for each in run.compared)
        proved = sum(each.plans[order].proof == "optimal" for each in run.compared)
        possible = sum(each.plans[order].possible for each in run.compared)
        yield (
            f"- The extender ({order}) evicted exactly what the offline plan costs in {equal} of "
            f"{len(run.compared)} cases; the plan was proved optimal in {proved} of {possible} "
            "that have one."
        )
    yield from (f"- **{sentence}**" for sentence in broken_promises(run.compared))


def _why(each: Compared, order: str, theirs: Damage) -> str:
    """One case with more pods: who went instead of whom."""
    ours = each.ours[order].damage
    text = (
        f"  - {each.name}: {ours.pods} pods ({_levels(ours)}), not {theirs.pods} "
        f"({_levels(theirs)})"
    )
    return text + (
        f", of which {theirs.half_broken} gangs are left half" * bool(theirs.half_broken)
    )


def _levels(damage: Damage) -> str:
    return ", ".join(
        f"{pods} of priority {priority}" + f" with {gangs} gangs" * bool(gangs)
        for priority, (gangs, pods) in damage.by_priority.items()
    )
