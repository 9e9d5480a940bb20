"""Pods lost to an urgent gang: the extender, kube-scheduler's group preemption, and neither.

    python -m bench.rival.against_kubernetes --nodes 40 --cases 20 --seed 1
    python -m bench.rival.against_kubernetes --nodes 40 100 --cases 16 8 --gang-share 0 0.5 1 \\
        --orders gangs-by-priority fewest-pods --report FILE

On a real control plane of the newest release: the named cases, then the trace mix at
each number of nodes and each share of gangs. The mix goes round fill levels and
placements (FILLS, PLACEMENTS), a new seed each time. The extender contends once for
each cost order. Results as JSON in bench/out/, written after every case; tables on
stdout, progress on stderr. ``--smoke`` is what CI runs: under a minute, without
pod-by-pod preemption.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from bench.inputs.mix import LEVEL, URGENT, Distributions, MixSettings, mix
from bench.inputs.state import State
from bench.report import write_section
from bench.rival.anatomy import anatomy
from bench.rival.bed import RIVALS, Bed, Contender, Ours, Rival
from bench.rival.cases import LOW, MIDDLE, named_cases
from bench.rival.comparison import (
    BY_PRIORITY,
    FEWEST,
    NOT_MEASURED,
    WAP,
    Compared,
    Drawn,
    Run,
    broken_promises,
    machine,
)
from bench.rival.outcome import ContenderOutcome, damage, optimum
from bench.rival.report import report
from extender.search.solver import BACKEND
from extender.settings.cost_order import ORDERS
from tests.controlplane.build import BuildError
from tests.controlplane.harness import ControlPlane
from tests.controlplane.releases import release

MINOR = "1.37"
OUT = Path(__file__).parent.parent / "out" / "against-kubernetes.json"
FILLS = (0.7, 0.8, 0.9, 0.95)
"""From room to spare to almost full, where preemption happens."""
PLACEMENTS: tuple[Literal["spread", "pack"], ...] = ("spread", "pack")
LEVELS = 4
GANG_SHARE = 0.5
SMOKE_NAMES = ("40-nodes-8-free", "eight-spread-gangs")
SMOKE_MIXES = 4


def mixes(
    nodes: int, cases: int, seed: int, gang_shares: Sequence[float], traces: Distributions
) -> Iterator[tuple[Drawn, State]]:
    """The mix's states for one number of nodes: placement and fill change with every case.

    A case is drawn once for every share of gangs.
    """
    for i in range(cases):
        for share in gang_shares:
            settings = MixSettings(
                nodes=nodes,
                fill=FILLS[i // len(PLACEMENTS) % len(FILLS)],
                placement=PLACEMENTS[i % len(PLACEMENTS)],
                gang_share=share,
                levels=LEVELS,
                seed=seed + i,
            )
            state = mix(settings, traces)
            size, where, fill = len(state.members), settings.placement, settings.fill
            name = f"{nodes}-{share:g}-{where}-{fill:g}-g{size}-s{settings.seed}"
            yield Drawn(nodes, share, where, fill), replace(state, name=name)


def compare(
    bed: Bed,
    drawn: Drawn | None,
    state: State,
    orders: Sequence[str],
    rivals: Sequence[Rival],
    quiet: float,
) -> Compared:
    """Let every contender have the state, one after the other."""
    plans = {
        order: optimum(state, order) for order in dict.fromkeys((BY_PRIORITY, FEWEST, *orders))
    }
    least = {order: plan.damage.pods for order, plan in plans.items()}
    print(
        f"{state.name}: least {least if plans[BY_PRIORITY].possible else 'impossible'}",
        file=sys.stderr,
    )

    def attempt(who: Contender) -> ContenderOutcome:
        try:
            found = bed.attempt(state, who, quiet=quiet)
        except (RuntimeError, TimeoutError) as problem:
            # One attempt that cannot be made is told in its place; the others still count.
            found = ContenderOutcome(
                damage(state, ()),
                0,
                ran=False,
                seconds=None,
                problem=f"{NOT_MEASURED}: {problem}"[:300],
            )
        print(
            f"  {who.order if isinstance(who, Ours) else who:15} {found.damage.pods:4} pods, "
            f"{found.damage.gangs} gangs, {found.members} of {len(state.members)} members run, "
            f"{found.seconds} s {found.problem}",
            file=sys.stderr,
            flush=True,
        )
        return found

    ours = {order: attempt(Ours(order)) for order in orders}
    theirs = {rival: attempt(rival) for rival in rivals}
    return Compared(
        name=state.name,
        about=state.about,
        gang=len(state.members),
        plans=plans,
        ours=ours,
        rivals=theirs,
        drawn=drawn,
        anatomy=anatomy(state, theirs[WAP]) if WAP in theirs else None,
    )


def states(options: argparse.Namespace) -> list[tuple[Drawn | None, State]]:
    """What to compare. Raises ValueError and OSError for bad input."""
    traces = Distributions.load(options.traces)
    named = [case.state for case in named_cases()]
    chosen: list[tuple[Drawn | None, State]] = []
    if options.smoke:
        chosen += [(None, state) for state in named if state.name in SMOKE_NAMES]
        sizes = [(40, SMOKE_MIXES)]
    else:
        chosen += [] if options.no_named else [(None, state) for state in named]
        last = options.cases[-1:] * len(options.nodes)
        sizes = [*zip(options.nodes, options.cases + last, strict=False)]
    for nodes, cases in sizes:
        chosen += mixes(nodes, cases, options.seed, options.gang_share, traces)
    return chosen


def run(
    options: argparse.Namespace,
    control_plane: ControlPlane,
    keep: Callable[[Run], None],
    earlier: Run | None = None,
) -> Run:
    """Compare everything on a running control plane without other users.

    What has been measured so far is handed to ``keep`` after every case. Cases that
    ``earlier`` has whole are taken from there.
    """
    began = time.monotonic()
    chosen = states(options)
    left_out = {*options.without, *(["pod-by-pod"] if options.smoke else [])}
    rivals = tuple(rival for rival in RIVALS if rival not in left_out)
    priorities = {LOW, MIDDLE, URGENT, *(LEVEL * (i + 1) for i in range(LEVELS))}
    shares = ", ".join(f"{share:.0%}" for share in options.gang_share)
    done = Run(
        command=_command(options),
        machine=machine(),
        versions=f"Kubernetes {release(MINOR).version} and kwok built by tests/controlplane; "
        f"search: {BACKEND}",
        input="named cases of bench/rival/cases.py; trace mix of bench/inputs/mix.py (openb-2023, "
        f"itp-2021; bench/inputs/data/README.md), fills {FILLS}, placements {PLACEMENTS}, "
        f"{LEVELS} priority levels, {shares} of the GPUs in use held by jobs of "
        f"itp-2021, seeds from {options.seed}",
        seconds=0,
        orders=tuple(options.orders),
        compared=(),
    )
    found = {} if earlier is None else {each.name: each for each in earlier.compared}
    spent = 0.0 if earlier is None else earlier.seconds
    bed = Bed(control_plane, priorities)
    try:
        for drawn, state in chosen:
            if state.name not in found or not found[state.name].measured:
                found[state.name] = compare(
                    bed, drawn, state, options.orders, rivals, options.quiet
                )
            compared = tuple(found[each.name] for _, each in chosen if each.name in found)
            seconds = round(spent + time.monotonic() - began, 1)
            done = replace(done, compared=compared, seconds=seconds)
            keep(done)
    finally:
        bed.close()
    return done


def _command(options: argparse.Namespace) -> str:
    if options.smoke:
        return f"python -m bench.rival.against_kubernetes --smoke --seed {options.seed}"
    nodes, cases = (" ".join(map(str, given)) for given in (options.nodes, options.cases))
    shares = " ".join(f"{share:g}" for share in options.gang_share)
    return (
        f"python -m bench.rival.against_kubernetes --nodes {nodes} --cases {cases} "
        f"--gang-share {shares} --orders {' '.join(options.orders)} --seed {options.seed}"
        + (" --no-named" if options.no_named else "")
        + "".join(f" --without {who}" for who in options.without)
    )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        description="Compare victim sets on a real control plane.",
        epilog="Exit status: 0 the extender kept its promises on every case, 1 it did not, "
        "2 bad input.",
    )
    made.add_argument("--nodes", type=int, nargs="+", default=[40], help="sizes of the mix")
    made.add_argument(
        "--cases", type=int, nargs="+", default=[20], help="cases a size; the last one repeats"
    )
    made.add_argument("--seed", type=int, default=1)
    made.add_argument(
        "--gang-share", type=float, nargs="+", default=[GANG_SHARE], help="shares of the mix"
    )
    made.add_argument(
        "--orders",
        nargs="+",
        choices=[order for order in ORDERS if order != "default"],
        default=[BY_PRIORITY, FEWEST],
        help="cost orders of the extender, each a contender (default needs ages)",
    )
    made.add_argument("--quiet", type=float, default=12.0, help="seconds without any change")
    made.add_argument("--smoke", action="store_true", help="a few cases at 40 nodes")
    made.add_argument("--no-named", action="store_true", help="only the trace mix")
    made.add_argument("--without", choices=RIVALS, action="append", default=[], metavar="RIVAL")
    made.add_argument("--traces", type=Path, help="count in these full traces instead")
    made.add_argument("--out", type=Path, default=OUT, help="where the JSON goes")
    made.add_argument(
        "--resume", action="store_true", help="go on with the run in --out: what is missing"
    )
    made.add_argument("--again", type=Path, metavar="JSON", help="run nothing: that run's tables")
    made.add_argument("--report", type=Path, help="put the tables into this page as well")
    return made


def measured(options: argparse.Namespace) -> Run:
    """Start a control plane and compare. Raises ValueError and OSError before it starts."""
    states(options)  # Bad input is to be told before minutes have gone by.
    earlier = _earlier(options) if options.resume else None
    with (
        tempfile.TemporaryDirectory(prefix="podgroup-bench-") as folder,
        ControlPlane(MINOR, Path(folder)) as control_plane,
    ):
        return run(options, control_plane, lambda done: _keep(options.out, done), earlier)


def _earlier(options: argparse.Namespace) -> Run:
    """The run to go on with. Raises ValueError when another command made it."""
    found = _read(options.out)
    if found.command != _command(options):
        raise ValueError(f"{options.out} was made by another command: {found.command}")
    return found


def _read(path: Path) -> Run:
    return msgspec.json.decode(path.read_bytes(), type=Run)


def _keep(path: Path, done: Run) -> None:
    _write(path, msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write, print; see ``--help`` for the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.again is not None:
            done = _read(options.again)
        else:
            done = measured(options)
    except (BuildError, OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    text = report(done)
    print(text)
    if options.report is not None:
        write_section("comparison", text, options.report)
    return 1 if broken_promises(done.compared) else 0


if __name__ == "__main__":
    sys.exit(main())
