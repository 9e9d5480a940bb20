"""``python -m tests.chaos``: one run a Kubernetes minor, several of them side by side."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.bed import Bed
from tests.chaos.report import Report, report_of, text_of
from tests.chaos.runner import Runner
from tests.controlplane.releases import RELEASES, release

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run and print; 1 on a violation."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="Faults against a real control plane and the extender, with invariants.",
    )
    known = ",".join(RELEASES)
    parser.add_argument("--minor", default=known, help=f"Kubernetes minors, of {known}")
    parser.add_argument("--seconds", type=float, default=300.0, help="trouble and rests together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--barrier", action="store_true", help="let the extender bind every pod")
    parser.add_argument("--report", type=Path, help="write everything as JSON")
    options = parser.parse_args(arguments)
    minors = [release(each.strip()).minor for each in options.minor.split(",")]
    if len(minors) == 1:
        report = play(minors[0], options.seconds, options.seed, barrier=options.barrier)
        if options.report:
            options.report.write_text(json.dumps(report, indent=1) + "\n")
        print(text_of(report), flush=True)
        return 1 if report["violations"] else 0
    more = ["--barrier"] if options.barrier else []
    return side_by_side(minors, options.seconds, options.seed, options.report, more)


def play(minor: str, seconds: float, seed: int, *, barrier: bool = False) -> Report:
    """One run in this process. The files of one with violations are kept in test-logs."""
    os.chdir(ROOT)  # The extender under test is the one of this checkout.
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{minor}-"))

    def say(line: str) -> None:
        print(f"[{minor} {time.monotonic() - began:6.1f} s] {line}", flush=True)

    async def whole() -> Report:
        bed = Bed(minor, folder, seed, barrier=barrier)
        try:
            run = await Runner(bed, minor, seed, say).play(seconds)
            return report_of(run, bed.plane.release.version)
        finally:
            await bed.close()

    began = time.monotonic()
    kept = ROOT / "test-logs" / f"chaos-{minor}-{seed}"
    done = False
    try:
        report = asyncio.run(whole())
        done = not report["violations"]
        return report
    finally:
        if not done:
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder / "logs", kept)
            say(f"logs kept in {kept}")
        shutil.rmtree(folder, ignore_errors=True)


def side_by_side(
    minors: list[str], seconds: float, seed: int, report: Path | None, more: list[str]
) -> int:
    """One process a minor; their reports go into one file, keyed by minor."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        parts = {minor: Path(name) / f"{minor}.json" for minor in minors}
        command = [sys.executable, "-m", "tests.chaos", "--seconds", str(seconds)]
        command += ["--seed", str(seed), *more]
        runs = [
            subprocess.Popen([*command, "--minor", minor, "--report", str(part)], cwd=ROOT)
            for minor, part in parts.items()
        ]
        try:
            codes = [run.wait() for run in runs]
        except BaseException:
            for run in runs:
                run.terminate()
            raise
        if report is not None:
            found = {m: json.loads(p.read_text()) for m, p in parts.items() if p.exists()}
            report.write_text(json.dumps(found, indent=1) + "\n")
    return max(codes)
