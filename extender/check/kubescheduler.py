"""What ``check`` reads of kube-scheduler: its configuration file and its command line.

Only the fields that a rule looks at are typed. ``extenders`` is typed in full and strictly, as
kube-scheduler itself refuses an unknown key there (k8s.io/kube-scheduler/config/v1, Extender).
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field

from extender.check import documents, flags
from extender.check.config import typed
from extender.check.documents import Document
from extender.check.workloads import Workload, workloads
from extender.model.errors import InvalidInput
from extender.model.texts import counted

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_TIMEOUT_SECONDS = 5.0
"""What kube-scheduler uses when httpTimeout is absent or zero."""


class TlsConfig(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How kube-scheduler speaks TLS to an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ManagedResource(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An extended resource that narrows an extender to the pods that ask for it."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One entry of ``extenders``."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: TlsConfig | None = None
    http_timeout: str = ""
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class PluginConfig(Struct, frozen=True, rename="camel"):
    """Arguments of one in-tree plugin."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)


class PluginReference(Struct, frozen=True):
    """One plugin in a set."""

    name: str = ""


class PluginSet(Struct, frozen=True):
    """What a profile turns on and off at one extension point."""

    enabled: tuple[PluginReference, ...] | None = None
    disabled: tuple[PluginReference, ...] | None = None


class Profile(Struct, frozen=True, rename="camel"):
    """One scheduler name and how its pods are scheduled."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: int | None = None
    plugins: dict[str, PluginSet | None] | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(Struct, frozen=True, rename="camel"):
    """Which of several kube-schedulers acts; what is absent has kube-scheduler's default."""

    leader_elect: bool | None = None
    resource_name: str = ""
    resource_namespace: str = ""


class Configuration(Struct, frozen=True, rename="camel"):
    """The parts of a KubeSchedulerConfiguration that concern an extender."""

    leader_election: LeaderElection = LeaderElection()
    percentage_of_nodes_to_score: int | None = None
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[ExtenderEntry, ...] = ()


class CommandLine(Struct, frozen=True):
    """What a kube-scheduler manifest says on its command line."""

    source: str
    gates: dict[str, bool]
    flags: dict[str, list[str]]
    """Name without dashes before it -> its values in order; the last one counts."""
    workload: Workload
    container: dict[str, Any]

    @property
    def config(self) -> str:
        """Value of --config; "" when the flag is missing and no configuration file is read."""
        return flags.last(self.flags, "config")


def configuration(found: list[Document], source: str) -> Configuration:
    """The one KubeSchedulerConfiguration among documents (ConfigMaps are looked into)."""
    matching = [d for d in documents.opened(found) if documents.kind_of(d) == KIND]
    if len(matching) != 1:
        raise InvalidInput(
            f"{source}: holds {counted(len(matching), 'document')} of kind {KIND}, not one"
        )
    version = matching[0].value.get("apiVersion")
    if version != API_VERSION:
        raise InvalidInput(f"{source}: apiVersion: {version!r}; {API_VERSION} is expected")
    return typed(matching[0], Configuration)


def command_line(found: list[Document], source: str) -> CommandLine:
    """The flags of the kube-scheduler container in a Pod or in anything with a pod template."""
    lines = command_lines(found)
    if len(lines) != 1:
        looked = sum(len(each.containers) for each in workloads(found))
        raise InvalidInput(
            f"{source}: {counted(len(lines), 'container', 'runs', 'run')} kube-scheduler, not one "
            f"(looked at {looked})"
        )
    return lines[0]


def command_lines(found: list[Document]) -> list[CommandLine]:
    """The flags of every container that runs kube-scheduler."""
    return [
        _line(each, container, words)
        for each in workloads(found)
        for container in each.containers
        if _is_kube_scheduler(words := _words(container, each.source))
    ]


def _line(each: Workload, container: dict[str, Any], words: list[str]) -> CommandLine:
    given = flags.parse(words)
    gates: dict[str, bool] = {}
    for value in given.get("feature-gates", []):
        gates.update(parse_gates(value, f"{each.source}: --feature-gates"))
    return CommandLine(each.source, gates, given, each, container)


def parse_gates(text: str, source: str) -> dict[str, bool]:
    """``A=true,B=false`` as a mapping; a ``kube:`` component prefix is dropped.

    Go reads booleans with strconv.ParseBool, hence 1, t, T, TRUE, true and True.
    """
    gates: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        name = name.strip().removeprefix("kube:")
        value = value.strip()
        if not (equals and name) or value not in _BOOLEANS:
            raise InvalidInput(f"{source}: {part!r} is not NAME=true or NAME=false")
        gates[name] = _BOOLEANS[value]
    return gates


_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def seconds(text: str) -> float | None:
    """A Go duration such as ``1m30s`` in seconds; None when it is none."""
    sign = -1.0 if text.startswith("-") else 1.0
    digits = text[1:] if text[:1] in "+-" else text
    if digits == "0":
        return 0.0
    parts = _DURATION.findall(digits)
    if not parts or "".join(number + unit for number, unit in parts) != digits:
        return None
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def timeout(entry: ExtenderEntry) -> float | None:
    """The seconds kube-scheduler waits for an extender; None when httpTimeout is malformed."""
    if not entry.http_timeout:
        return DEFAULT_TIMEOUT_SECONDS
    value = seconds(entry.http_timeout)
    return DEFAULT_TIMEOUT_SECONDS if value == 0 else value


def _words(container: dict[str, Any], source: str) -> list[str]:
    """Command and arguments in one list."""
    words: list[str] = []
    for key in ("command", "args"):
        value = container.get(key) or []
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise InvalidInput(f"{source}: {key} of a container must be a list of strings")
        words += value
    return words


def _is_kube_scheduler(words: list[str]) -> bool:
    """Whether the command is kube-scheduler, also behind a wrapper such as a shell."""
    return any(word.rsplit("/", 1)[-1] == "kube-scheduler" for word in words)
