"""Compare the pinned packages with databases of known vulnerabilities: ``./run audit``.

Without arguments pip-audit asks the package registry. With ``--database`` nothing is asked: a
checkout of the Python Packaging Advisory Database (github.com/pypa/advisory-database) is read, and
its commit and date are told, as it knows nothing that became known later.

Exit status 0: nothing known; 1: vulnerable pins; 75: it could not be found out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from packaging.version import InvalidVersion, Version

from tools.sbom import canonical, locked

ROOT = Path(__file__).resolve().parents[1]
OTHERS = {"skypilot"}
"""Files of requirements/ that are not audited: a client that a test drives, never installed."""
FINE, VULNERABLE, UNKNOWN = 0, 1, 75


class UnavailableError(Exception):
    """The comparison could not be made."""


class Advisory(Struct, frozen=True, order=True):
    """A known vulnerability of a pinned package."""

    package: str
    version: str
    id: str
    fixed: str
    """Versions that do not have it, "" when there is none yet."""


def audited() -> list[Path]:
    """The files of requirements/ that are looked at."""
    found = sorted((ROOT / "requirements").glob("*.txt"))
    return [path for path in found if path.stem not in OTHERS]


def pins() -> dict[str, str]:
    """Canonical name -> version of every package in them."""
    return {
        name: version
        for path in audited()
        for name, (version, _) in locked(path.read_text()).items()
    }


def online() -> tuple[list[Advisory], str]:
    """What pip-audit finds, and where it looked. Raises UnavailableError."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--disable-pip", "--require-hashes", "--timeout", "10"]
    for path in audited():
        command += ["--requirement", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnavailableError(f"pip-audit: {said[-1]}") from None
    return list(reported(report)), "the registry's advisories (pip-audit)"


def reported(report: dict[str, Any]) -> Iterator[Advisory]:
    """The advisories of pip-audit's JSON. Raises UnavailableError when a package was left out."""
    for each in report["dependencies"]:
        if reason := each.get("skip_reason"):
            raise UnavailableError(f"{each['name']}: {reason}")
        for found in each["vulns"]:
            fixed = ", ".join(found["fix_versions"])
            yield Advisory(canonical(each["name"]), each["version"], found["id"], fixed)


def offline(database: Path) -> tuple[list[Advisory], str]:
    """What a checkout of the advisory database has on the pins, and which one it is."""
    if not (database / "vulns").is_dir():
        raise UnavailableError(f"{database} has no directory vulns: is it the advisory database?")
    command = ["git", "-C", str(database), "log", "-1", "--format=%h of %cs"]
    state = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    found = [
        Advisory(name, version, advisory["id"], fixes(affected))
        for name, version in pins().items()
        for advisory in advisories(database, name)
        for affected in advisory.get("affected") or []
        if is_affected(affected, version)
    ]
    return sorted(found), f"the advisory database at commit {state or 'unknown'}"


def advisories(database: Path, name: str) -> Iterator[dict[str, Any]]:
    """What a checkout has on one package and has not taken back."""
    for path in sorted((database / "vulns" / name).glob("*.y*ml")):
        advisory: dict[str, Any] = yaml.safe_load(path.read_text())
        if not advisory.get("withdrawn"):
            yield advisory


def is_affected(affected: dict[str, Any], version: str) -> bool:
    """Whether an OSV entry names the version, in its list or in a range of the ecosystem."""
    if version in (affected.get("versions") or []):
        return True
    for each in affected.get("ranges") or []:
        if each.get("type") == "ECOSYSTEM" and _in_range(
            each.get("events") or [], Version(version)
        ):
            return True
    return False


def _in_range(events: list[dict[str, str]], version: Version) -> bool:
    """OSV: the last event at or below the version decides."""
    inside = False
    for event in sorted(events, key=_when):
        ((kind, at),) = event.items()
        if kind == "introduced" and (at == "0" or version >= Version(at)):
            inside = True
        elif (kind == "fixed" and version >= Version(at)) or (
            kind == "last_affected" and version > Version(at)
        ):
            inside = False
    return inside


def _when(event: dict[str, str]) -> Version:
    ((_, at),) = event.items()
    try:
        return Version(at)
    except InvalidVersion:
        return Version("0")


def fixes(affected: dict[str, Any]) -> str:
    """The versions that an OSV entry calls fixed."""
    return ", ".join(
        event["fixed"]
        for each in affected.get("ranges") or []
        if each.get("type") == "ECOSYSTEM"
        for event in each.get("events") or []
        if "fixed" in event
    )


def main() -> int:
    """Print what is known of the pins."""
    parser = argparse.ArgumentParser(description="Are pinned packages known to be vulnerable?")
    parser.add_argument("--database", type=Path, help="a checkout of the advisory database")
    args = parser.parse_args()
    try:
        found, source = offline(args.database) if args.database else online()
    except (UnavailableError, subprocess.TimeoutExpired) as problem:
        print(f"audit: COULD NOT BE MADE, nothing is known of {len(pins())} pins: {problem}")
        return UNKNOWN
    for each in found:
        repair = f"fixed in {each.fixed}" if each.fixed else "no fix is known"
        print(f"audit: {each.package} {each.version}: {each.id}, {repair}")
    print(f"audit: {len(pins())} pins against {source}: {len(found)} advisories")
    return VULNERABLE if found else FINE


if __name__ == "__main__":
    raise SystemExit(main())
