"""Pods lost to an urgent gang: the extender, kube-scheduler's group preemption, and neither.

    python -m bench.against_kubernetes --nodes 40 --cases 20 --seed 1
    python -m bench.against_kubernetes --nodes 40 100 200 --cases 20 10 6 --report FILE

On a real control plane of the newest release: the named cases, then the trace mix at
each number of nodes. The mix goes round fill levels and placements (FILLS,
PLACEMENTS), a new seed each time. Results as JSON in bench/out/, tables on stdout, progress on
stderr. ``--smoke`` is what CI runs: under a minute, without pod-by-pod preemption.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bench.mix import LEVEL, URGENT, Distributions, MixSettings, mix
from bench.rival.bed import CONTENDERS, Bed, Contender
from bench.rival.cases import LOW, MIDDLE, named_cases
from bench.rival.comparison import Compared, Run, broken_promises, machine
from bench.rival.outcome import Outcome, damage, optimum
from bench.rival.report import report
from bench.state import State
from extender.search.solver import BACKEND
from tests.controlplane.build import BuildError
from tests.controlplane.harness import ControlPlane
from tests.controlplane.releases import release

MINOR = "1.37"
OUT = Path(__file__).parent / "out" / "against-kubernetes.json"
FILLS = (0.7, 0.8, 0.9, 0.95)
"""From room to spare to almost full, where preemption happens."""
PLACEMENTS: tuple[Literal["spread", "pack"], ...] = ("spread", "pack")
LEVELS = 4
GANG_SHARE = 0.5
SMOKE_NAMES = ("40-nodes-8-free", "eight-spread-gangs")
SMOKE_MIXES = 4


def mixes(
    nodes: int, cases: int, seed: int, gang_share: float, traces: Distributions
) -> Iterator[State]:
    """The mix's states for one number of nodes: placement and fill change with every case."""
    for i in range(cases):
        settings = MixSettings(
            nodes=nodes,
            fill=FILLS[i // len(PLACEMENTS) % len(FILLS)],
            placement=PLACEMENTS[i % len(PLACEMENTS)],
            gang_share=gang_share,
            levels=LEVELS,
            seed=seed + i,
        )
        yield mix(settings, traces)


def compare(
    bed: Bed, state: State, kind: str, contenders: Sequence[Contender], quiet: float
) -> Compared:
    """Let every contender have the state, one after the other."""
    best = optimum(state)
    outcomes: dict[Contender, Outcome] = {}
    for who in contenders:
        try:
            found = bed.attempt(state, who, quiet=quiet)
        except (RuntimeError, TimeoutError) as problem:
            # One attempt that cannot be made is told in its place; the others still count.
            found = Outcome(damage(state, ()), 0, False, None, f"not measured: {problem}"[:300])
        outcomes[who] = found
        print(
            f"{state.name:36} {who:15} {found.damage.pods:4} pods, {found.damage.gangs} gangs, "
            f"{found.members} of {len(state.members)} members run, {found.seconds} s "
            f"{found.problem}(least: {best.damage.pods if best.possible else 'impossible'})",
            file=sys.stderr,
            flush=True,
        )
    return Compared(state.name, kind, state.about, len(state.members), best, outcomes)


def states(options: argparse.Namespace) -> list[tuple[str, State]]:
    """What to compare, with its kind. Raises ValueError and OSError for bad input."""
    traces = Distributions.load(options.traces)
    named = [case.state for case in named_cases()]
    if options.smoke:
        chosen = [("named", state) for state in named if state.name in SMOKE_NAMES]
        sizes = [(40, SMOKE_MIXES)]
    else:
        chosen = [] if options.no_named else [("named", state) for state in named]
        last = options.cases[-1:] * len(options.nodes)
        sizes = [*zip(options.nodes, options.cases + last, strict=False)]
    for nodes, cases in sizes:
        drawn = mixes(nodes, cases, options.seed, options.gang_share, traces)
        chosen += [(str(nodes), state) for state in drawn]
    return chosen


def run(options: argparse.Namespace, control_plane: ControlPlane) -> Run:
    """Compare everything on a running control plane without other users."""
    began = time.monotonic()
    chosen = states(options)
    left_out = {*options.without, *(["pod-by-pod"] if options.smoke else [])}
    contenders = tuple(who for who in CONTENDERS if who not in left_out)
    priorities = {LOW, MIDDLE, URGENT, *(LEVEL * (i + 1) for i in range(LEVELS))}
    bed = Bed(control_plane, priorities)
    compared: list[Compared] = []
    try:
        for kind, state in chosen:
            compared.append(compare(bed, state, kind, contenders, options.quiet))
    finally:
        bed.close()
    return Run(
        command=_command(options),
        machine=machine(),
        versions=f"Kubernetes {release(MINOR).version} and kwok built by tests/controlplane; "
        f"search: {BACKEND}",
        input="named cases of bench/rival/cases.py; trace mix of bench/mix.py (openb-2023, "
        f"itp-2021; bench/data/README.md), fills {FILLS}, placements {PLACEMENTS}, "
        f"{LEVELS} priority levels, {options.gang_share:.0%} of the GPUs in use held by jobs of "
        f"itp-2021, seeds from {options.seed}",
        seconds=round(time.monotonic() - began, 1),
        compared=tuple(compared),
    )


def _command(options: argparse.Namespace) -> str:
    if options.smoke:
        return f"python -m bench.against_kubernetes --smoke --seed {options.seed}"
    nodes, cases = (" ".join(map(str, given)) for given in (options.nodes, options.cases))
    return (
        f"python -m bench.against_kubernetes --nodes {nodes} --cases {cases} "
        f"--seed {options.seed}"
        + (f" --gang-share {options.gang_share:g}" if options.gang_share != GANG_SHARE else "")
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
    made.add_argument("--gang-share", type=float, default=GANG_SHARE)
    made.add_argument("--quiet", type=float, default=12.0, help="seconds without any change")
    made.add_argument("--smoke", action="store_true", help="a few cases at 40 nodes")
    made.add_argument("--no-named", action="store_true", help="only the trace mix")
    made.add_argument(
        "--without", choices=CONTENDERS[1:], action="append", default=[], metavar="RIVAL"
    )
    made.add_argument("--traces", type=Path, help="count in these full traces instead")
    made.add_argument("--out", type=Path, default=OUT, help="where the JSON goes")
    made.add_argument("--again", type=Path, metavar="JSON", help="run nothing: that run's tables")
    made.add_argument("--report", type=Path, help="write the tables to this file as well")
    return made


def measured(options: argparse.Namespace) -> Run:
    """Start a control plane and compare. Raises ValueError and OSError before it starts."""
    states(options)  # Bad input is to be told before minutes have gone by.
    with (
        tempfile.TemporaryDirectory(prefix="podgroup-bench-") as folder,
        ControlPlane(MINOR, Path(folder)) as control_plane,
    ):
        return run(options, control_plane)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write, print; see ``--help`` for the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.again is not None:
            done = msgspec.json.decode(options.again.read_bytes(), type=Run)
        else:
            done = measured(options)
            encoded = msgspec.json.format(msgspec.json.encode(done), indent=1)
            _write(options.out, encoded + b"\n")
    except (BuildError, OSError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    text = report(done)
    print(text)
    if options.report is not None:
        _write(options.report, text.encode())
    return 1 if broken_promises(done.compared) else 0


if __name__ == "__main__":
    sys.exit(main())
