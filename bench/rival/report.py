"""A run as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from bench.rival.bed import CONTENDERS, Contender
from bench.rival.comparison import Compared, Run, broken_promises, pods_in_both
from bench.rival.outcome import Damage, Outcome

TITLES: dict[Contender, str] = {
    "extender": "extender",
    "workload-aware": "kube-scheduler, GenericWorkload on",
    "pod-by-pod": "kube-scheduler, pod by pod",
}


def report(run: Run) -> str:
    """Return the whole report."""
    present = [who for who in CONTENDERS if any(who in each.outcomes for each in run.compared)]
    lines = [
        "# Against kube-scheduler itself",
        "",
        f"- Machine: {run.machine}",
        f"- Versions: {run.versions}",
        f"- Input: {run.input}",
        f"- Command: `{run.command}` ({run.seconds:.0f} s)",
        "",
        *_reading(),
    ]
    named = [each for each in run.compared if each.kind == "named"]
    if named:
        lines += ["## Named cases", "", *_cases(named, present), ""]
    sizes = sorted({int(each.kind) for each in run.compared if each.kind != "named"})
    for size in sizes:
        mixed = [each for each in run.compared if each.kind == str(size)]
        lines += [f"## Trace mix, {size} nodes, {len(mixed)} cases", ""]
        lines += [*_sums(mixed, present), "", *_kinds(mixed, present), ""]
        lines += [*_cases(mixed, present), ""]
    mixed = [each for each in run.compared if each.kind != "named"]
    lines += ["## What was asked", ""]
    for rival in present[1:]:
        for size in sizes:
            found = [each for each in mixed if each.kind == str(size)]
            lines.append(_ratio(f"trace mix at {size} nodes", found, rival))
        if len(sizes) > 1:
            lines.append(_ratio("trace mix at all sizes", mixed, rival))
        if named:
            lines.append(_ratio("named cases", named, rival))
        more = [each.name for each in run.compared if each.more_than(rival)]
        lines.append(
            f"- Cases in which the extender evicted more pods than {TITLES[rival]}: "
            + (", ".join(more) or "none")
        )
    wrong = broken_promises(run.compared)
    equal = sum(each.as_planned for each in run.compared)
    lines.append(
        f"- The extender evicted exactly what the offline plan costs in {equal} of "
        f"{len(run.compared)} cases; the plan was proved optimal in "
        f"{sum(each.optimum.proof == 'optimal' for each in run.compared)} of "
        f"{sum(each.optimum.possible for each in run.compared)} that have one."
    )
    lines += [f"- {sentence}" for sentence in wrong]
    return "\n".join(lines) + "\n"


def _reading() -> list[str]:
    return [
        "Every contender starts from the same state, made anew for it, with victims of grace 0.",
        "`least` is the offline plan's proved optimum in the default order (priorities before",
        "numbers). A cell reads pods / GPUs / gangs evicted, highest priority hit, seconds from",
        "the gang's creation to its last binding. **no**: the gang does not run, and how many of",
        "its members do. *half n*: n gangs lost some members and kept others.",
        "",
        "To be known when reading: there are no kubelets (kwok plays them), so a pod runs as soon",
        "as it is bound and goes as soon as it is deleted. All victims started within seconds of",
        "each other, offline they have no age at all: where gangs and pods at every priority are",
        "equal, the GPUs of the plan and of what was evicted may therefore differ. kube-scheduler",
        "looks at every node (`percentageOfNodesToScore: 100`) and breaks ties between nodes at",
        "random: its numbers differ from run to run.",
        "",
    ]


def _cases(compared: Iterable[Compared], present: Sequence[Contender]) -> list[str]:
    lines = [
        "| case | gang | least | " + " | ".join(TITLES[who] for who in present) + " |",
        "| --- | ---: | --- |" + " --- |" * len(present),
    ]
    for each in compared:
        least = _damage(each.optimum.damage) if each.optimum.possible else "impossible"
        if each.optimum.possible and each.optimum.proof != "optimal":
            least += f" ({each.optimum.proof})"
        cells = [_cell(each.outcomes.get(who), each.gang) for who in present]
        lines.append(f"| {each.name} | {each.gang} | {least} | " + " | ".join(cells) + " |")
    return lines


def _damage(damage: Damage) -> str:
    if not damage.pods:
        return "0"
    return f"{damage.pods} / {damage.gpus} / {damage.gangs}, {damage.highest}"


def _cell(outcome: Outcome | None, gang: int) -> str:
    if outcome is None:
        return "not run"
    text = _damage(outcome.damage)
    if outcome.damage.half_broken:
        text += f", *half {outcome.damage.half_broken}*"
    text += f", {outcome.seconds:.2f} s" if outcome.seconds is not None else ""
    if not outcome.ran:
        text += f", **no** ({outcome.members} of {gang})"
    return text + (f" ({outcome.problem})" if outcome.problem else "")


def _sums(compared: Sequence[Compared], present: Sequence[Contender]) -> list[str]:
    lines = [
        "| all cases together | pods | GPUs | gangs broken | of these half | gang ran "
        "| evicted for nothing | seconds, median | seconds, most |",
        "| --- |" + " ---: |" * 8,
    ]
    possible = [each.optimum for each in compared if each.optimum.possible]
    lines.append(
        f"| least | {sum(o.damage.pods for o in possible)} | "
        f"{sum(o.damage.gpus for o in possible)} | {sum(o.damage.gangs for o in possible)} "
        f"| 0 | {len(possible)} of {len(compared)} | 0 | | |"
    )
    for who in present:
        found = [each.outcomes[who] for each in compared if who in each.outcomes]
        times = [outcome.seconds for outcome in found if outcome.seconds is not None]
        lines.append(
            f"| {TITLES[who]} | {sum(o.damage.pods for o in found)} "
            f"| {sum(o.damage.gpus for o in found)} | {sum(o.damage.gangs for o in found)} "
            f"| {sum(o.damage.half_broken for o in found)} "
            f"| {sum(o.ran for o in found)} of {len(found)} "
            f"| {sum(o.for_nothing for o in found)} "
            f"| {statistics.median(times) if times else float('nan'):.2f} "
            f"| {max(times, default=float('nan')):.2f} |"
        )
    return lines


def _kinds(compared: Sequence[Compared], present: Sequence[Contender]) -> list[str]:
    """Pods evicted by placement and fill level, which a mix's name begins with."""
    kinds: dict[str, list[Compared]] = {}
    for each in compared:
        kinds.setdefault(" ".join(each.name.split("-")[2:4]), []).append(each)
    lines = [
        "| pods evicted | cases | least | " + " | ".join(TITLES[who] for who in present) + " |",
        "| --- |" + " ---: |" * (2 + len(present)),
    ]
    for kind, found in sorted(kinds.items()):
        sums = [sum(each.outcomes[who].damage.pods for each in found) for who in present]
        least = sum(each.optimum.damage.pods for each in found)
        cells = " | ".join(map(str, [len(found), least, *sums]))
        lines.append(f"| {kind} | {cells} |")
    return lines


def _ratio(what: str, compared: Sequence[Compared], rival: Contender) -> str:
    cases, ours, theirs = pods_in_both(compared, rival)
    times = f"{theirs / ours:.1f} times" if ours else "no ratio, ours is 0"
    return (
        f"- {what}, {cases} cases in which both got the gang to run: {ours} pods by the "
        f"extender, {theirs} by {TITLES[rival]}: {times}"
    )
