"""A CycloneDX SBOM of what an installation of this program runs: ``./run sbom [--output FILE]``.

Standard library only, so that it also describes the image's environment, which has nothing else.
Names, versions, licences and who needs whom are read from the installed packages' own metadata;
the hashes are those that requirements/runtime.txt, highs.txt and otel.txt admit, one for each file
of that version that may have been installed. What a wheel carries inside (uvloop: libuv) is not
taken apart, and the base image's packages are not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

PROGRAM = "podgroup-extender"
LOCKS = [
    Path(__file__).resolve().parents[1] / "requirements" / f"{part}.txt"
    for part in ("runtime", "highs", "otel")
]
"""What an image is installed from; the others, extras, may be missing elsewhere."""

LICENCES = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
"""Classifiers of packages that do not say License-Expression, as SPDX identifiers."""

_NAME = re.compile(r"^\s*(?P<name>[A-Za-z0-9._-]+)\s*(?:\[(?P<extras>[^]]*)\])?")
_EXTRA = re.compile(r"""\bextra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


class IncompleteError(Exception):
    """What is installed cannot be described in full."""


def canonical(name: str) -> str:
    """A project name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def lock() -> str:
    """Everything that may be installed to run the program, with its hashes."""
    return "".join(path.read_text() for path in LOCKS)


def locked(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of a hashed requirements file: canonical name -> version and SHA-256 sums."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        pin = re.match(r"^([A-Za-z0-9._-]+)==([^\s;]+)", line)
        if pin:
            sums = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})\b", line))
            found[canonical(pin[1])] = (pin[2], sums)
    return found


def needs(installed: Mapping[str, Distribution], name: str, extras: Iterable[str]) -> set[str]:
    """The installed packages that one asks for, with these extras of its own."""
    wanted = {canonical(each) for each in extras}
    found = set()
    for requirement in installed[name].requires or ():
        named = _NAME.match(requirement)
        extra = _EXTRA.search(requirement)
        if named is None or (extra and canonical(extra["extra"]) not in wanted):
            continue
        # A marker on platform or Python decided when it was installed, so what is there counts.
        if canonical(named["name"]) in installed:
            found.add(named["name"] + (f"[{named['extras']}]" if named["extras"] else ""))
    return found


def closure(installed: Mapping[str, Distribution], root: str) -> dict[str, set[str]]:
    """The root and all that it needs: canonical name -> names that it needs itself."""
    graph: dict[str, set[str]] = {}
    seen: set[str] = set()
    todo = [root]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        named = _NAME.match(current)
        assert named is not None
        name = canonical(named["name"])
        further = needs(installed, name, (named["extras"] or "").replace(" ", "").split(","))
        graph.setdefault(name, set()).update(canonical(each.split("[")[0]) for each in further)
        todo += further
    return graph


def licence(package: Distribution) -> list[dict[str, Any]]:
    """CycloneDX's ``licenses``. Raises IncompleteError when the package does not say."""
    metadata = package.metadata
    expressions = metadata.get_all("License-Expression") or []
    if expressions:
        return [{"expression": expressions[0]}]
    classifiers = metadata.get_all("Classifier") or []
    known = sorted({LICENCES[each] for each in classifiers if each in LICENCES})
    if known:
        return [{"license": {"id": each}} for each in known]
    if words := " ".join(metadata.get_all("License") or []).strip().splitlines():
        return [{"license": {"name": words[0]}}]
    raise IncompleteError(f"{metadata['Name']} {package.version} does not say its licence")


def component(package: Distribution, sums: tuple[str, ...]) -> dict[str, Any]:
    """One package as a CycloneDX component; ``sums`` are the files that it may come from."""
    name = canonical(package.metadata["Name"])
    purl = f"pkg:pypi/{name}@{package.version}"
    described: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": package.metadata["Name"],
        "version": package.version,
        "licenses": licence(package),
        "purl": purl,
    }
    if sums:
        described["externalReferences"] = [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{name}/{package.version}/",
                "comment": "the files of this version; one of them is installed",
                "hashes": [{"alg": "SHA-256", "content": each} for each in sums],
            }
        ]
    return described


def bill(packages: Iterable[Distribution], lock: str) -> dict[str, Any]:
    """The SBOM of PROGRAM among installed packages. Raises IncompleteError."""
    installed = {canonical(each.metadata["Name"]): each for each in packages}
    if PROGRAM not in installed:
        raise IncompleteError(f"{PROGRAM} is not installed")
    pins = locked(lock)
    graph = closure(installed, f"{PROGRAM}[highs,otel]")
    components = []
    for name in sorted(graph.keys() - {PROGRAM}):
        version, sums = pins.get(name, ("", ()))
        present = installed[name].version
        if not sums:
            raise IncompleteError(f"{name} {present} is installed, but not in the lock with hashes")
        if version != present:
            raise IncompleteError(f"{name} {present} is installed, the lock says {version}")
        components.append(component(installed[name], sums))
    program = component(installed[PROGRAM], ()) | {"type": "application"}
    references = {name: f"pkg:pypi/{name}@{installed[name].version}" for name in graph}
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": program},
        "components": components,
        "dependencies": [
            {"ref": references[name], "dependsOn": sorted(references[each] for each in graph[name])}
            for name in sorted(graph)
        ],
    }
    # Equal content, equal number: an SBOM made twice is the same document.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    document["serialNumber"] = f"urn:uuid:{number}"
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        moment = datetime.fromtimestamp(int(epoch), UTC)
        document["metadata"]["timestamp"] = moment.isoformat().replace("+00:00", "Z")
    return document


def main() -> int:
    """Write the SBOM of the environment that this runs in."""
    parser = argparse.ArgumentParser(description="Write a CycloneDX SBOM (JSON).")
    parser.add_argument("--output", type=Path, help="default: standard output")
    args = parser.parse_args()
    try:
        document = bill(distributions(), lock())
    except IncompleteError as problem:
        print(f"sbom: {problem}", file=sys.stderr)
        return 1
    text = json.dumps(document, indent=2) + "\n"
    if args.output is None:
        print(text, end="")
    else:
        args.output.write_text(text)
        print(f"sbom: {len(document['components'])} packages beside {PROGRAM}, {args.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
