"""The installations that manifests/ describes, to be changed in a place and checked as a whole."""

from __future__ import annotations

import argparse
import copy
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from extender.check import documents
from extender.check.documents import Document
from extender.check.findings import Finding, by_severity
from extender.cli import check_command
from tests.packaging.manifests import read

Object = dict[str, Any]

COMMON = ("namespace.yaml", "rbac.yaml")


class Way(Struct, frozen=True):
    """One way to install: its files, and what ``check`` is told about them."""

    config: str
    scheduler_config: str
    scheduler_manifest: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Every file, once."""
        named = (self.config, self.scheduler_config, self.scheduler_manifest, *COMMON)
        return tuple(dict.fromkeys(filter(None, named)))

    @property
    def words(self) -> list[str]:
        """The command line of ``check``."""
        found = ["--config", self.config, "--scheduler-config", self.scheduler_config]
        if self.scheduler_manifest:
            found += ["--scheduler-manifest", self.scheduler_manifest]
        else:
            found += ["--scheduler-feature-gates", "GenericWorkload=false"]
        return found + [word for name in COMMON for word in ("--manifest", name)]


SECOND = "second scheduler"
STATIC = "static pod"
DEPLOYMENT = "deployment"

WAYS = {
    SECOND: Way("extender-config.yaml", "kube-scheduler-config.yaml", "sidecar.yaml"),
    STATIC: Way(
        "static-pod/extender-config.yaml",
        "static-pod/kube-scheduler-config.yaml",
        "static-pod/kube-scheduler.yaml",
    ),
    DEPLOYMENT: Way("deployment.yaml", "kube-scheduler-config-split.yaml"),
}


@functools.cache
def loaded(name: str) -> list[Object]:
    """The documents of one file."""
    return read(name)


class Installation:
    """The documents of one way, loaded from manifests/."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.files = {name: copy.deepcopy(loaded(name)) for name in WAYS[way].files}

    def objects(self, *kinds: str) -> Iterator[Object]:
        """Every object of these kinds."""
        for each_file in self.files.values():
            yield from (each for each in each_file if each.get("kind") in kinds)

    def drop(self, *kinds: str) -> None:
        """Take every object of these kinds out."""
        for name, each_file in self.files.items():
            self.files[name] = [each for each in each_file if each.get("kind") not in kinds]

    def add(self, document: Object) -> None:
        """One more object, beside rbac.yaml's."""
        self.files["rbac.yaml"].append(document)

    @property
    def pod(self) -> Object:
        """Spec of the pod with the extender in it."""
        (found,) = self.objects("Pod", "Deployment")
        spec: Object = found["spec"]
        return spec["template"]["spec"] if found["kind"] == "Deployment" else spec

    @property
    def extender(self) -> Object:
        """The extender's container."""
        (found,) = [
            each
            for field in ("initContainers", "containers")
            for each in self.pod.get(field, [])
            if each["name"] == "extender"
        ]
        container: Object = found
        return container

    def configure(self, change: Callable[[Object], object]) -> None:
        """Change the extender's own settings, wherever they stand."""
        for document in self.files[WAYS[self.way].config]:
            if "kind" not in document:
                change(document)
            elif document["kind"] == "ConfigMap":
                settings = yaml.safe_load(document["data"]["config.yaml"])
                change(settings)
                document["data"]["config.yaml"] = yaml.safe_dump(settings)

    @property
    def entries(self) -> list[Object]:
        """kube-scheduler's entries of ``extenders``."""
        (document,) = self.files[WAYS[self.way].scheduler_config]
        found: list[Object] = document["extenders"]
        return found

    def check(self, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
        """What ``check`` finds, given these documents for the files."""
        monkeypatch.setattr(documents, "read", self._read)
        parser = argparse.ArgumentParser()
        check_command.add_parser(parser.add_subparsers())
        findings, unchecked = check_command.examine(
            parser.parse_args(["check", *WAYS[self.way].words])
        )
        assert unchecked == []
        return by_severity(findings)

    def _read(self, path: Path) -> list[Document]:
        # Reading and writing YAML for each case would take most of a minute.
        return [Document(str(path), each) for each in self.files[str(path)]]
