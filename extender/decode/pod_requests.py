"""How much a pod asks for, as kube-scheduler counts it.

Source: PodRequests in k8s.io/component-helpers/resource/helpers.go (1.37) and
PodInfo.CalculateResource of kube-scheduler; KEP-753 (sidecars), KEP-1287 (in-place
resize), KEP-2837 and KEP-5419 (resources of the whole pod, and their resize).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Raw

from extender.decode.api_objects import (
    NO_RAW,
    RawAmounts,
    RawContainer,
    RawPodSpec,
    RawPodStatus,
    RawResources,
    raw_bytes,
)
from extender.decode.interning import Interner, Memo
from extender.decode.quantity import parse_resource
from extender.model.errors import InvalidInput
from extender.model.memory_limits import ALWAYS_READ, MOST_RESOURCES, TEXT_BYTES, TOO_MANY
from extender.model.objects import Requests

Totals = dict[str, int]
RESOURCE_BYTES = 160
"""About what a resource's name, amount and place take."""
KNOWN = frozenset(("cpu", "memory", "ephemeral-storage", "pods"))

_resources = msgspec.json.Decoder(RawResources)
_amounts = msgspec.json.Decoder(RawAmounts)
_memo: Memo[tuple[bytes | str | None, ...], Requests] = Memo()
_intern: Interner[Requests] = Interner()


def to_requests(amounts: Mapping[str, int]) -> Requests:
    """Return amounts in the form the records keep: sorted, without zeros, shared."""
    kept = tuple(sorted(item for item in amounts.items() if item[1]))
    return _intern(kept, RESOURCE_BYTES * len(kept))


def parse_amounts(amounts: Mapping[str, str | int | float] | None, where: str) -> Totals:
    """Return resource amounts as integers; ``where`` is the field, for the error."""
    totals: Totals = {}
    for name, value in (amounts or {}).items():
        try:
            totals[name] = parse_resource(name, value)
        except InvalidInput as error:
            raise InvalidInput(f"{where}.{name}: {error}") from error
        if totals[name] < 0:
            raise InvalidInput(f"{where}.{name}: quantity {str(value)[:64]!r} is negative")
    return totals


def pod_requests(spec: RawPodSpec, status: RawPodStatus | None) -> Requests:
    """Return the scheduling request of a pod; it always holds ("pods", 1).

    Absent requests default to the limits, as the API server would have filled them
    in. Raises InvalidInput that begins with the field.
    """
    key = _memo_key(spec, status)
    found = _memo.get(key)
    if found is not None:
        return found
    size = 2 * sum(TEXT_BYTES + (len(part) if part else 0) for part in key)
    if size > ALWAYS_READ:
        return _compute(spec, status)  # nobody else has the same
    return _memo.put(key, _compute(spec, status), size)


def _memo_key(spec: RawPodSpec, status: RawPodStatus | None) -> tuple[bytes | str | None, ...]:
    """Everything the answer depends on, as bytes that need not be decoded.

    Every pod and every event passes here, hence the loops without helpers.
    """
    parts: list[bytes | str | None] = []
    for container in spec.containers or ():
        parts.append(container.name)
        parts.append(bytes(container.resources))
    if spec.init_containers:
        parts.append(None)
        for container in spec.init_containers:
            parts += (container.name, container.restart_policy, bytes(container.resources))
    if spec.overhead is not NO_RAW or spec.resources is not NO_RAW:
        parts += (None, None, bytes(spec.overhead), bytes(spec.resources))
    if status is None:
        return tuple(parts)
    parts.append(None)
    for report in status.container_statuses or ():
        if report.resources is not NO_RAW or report.allocated_resources is not NO_RAW:
            parts.append(report.name)
            parts.append(bytes(report.resources))
            parts.append(bytes(report.allocated_resources))
    if status.init_container_statuses:
        parts.append(None)
        for report in status.init_container_statuses:
            parts += (report.name, bytes(report.resources), bytes(report.allocated_resources))
    if status.resources is not NO_RAW or status.allocated_resources is not NO_RAW:
        parts += (None, None, bytes(status.resources), bytes(status.allocated_resources))
    if _resize_infeasible(status):
        parts.append("infeasible")
    return tuple(parts)


def _compute(spec: RawPodSpec, status: RawPodStatus | None) -> Requests:
    """The rule itself; see the module's sources."""
    totals = _containers(spec, status)
    pod_level = _requirements(spec.resources, "spec.resources")
    wanted = _pod_level_requests(pod_level, totals)
    if wanted:
        if status is not None and raw_bytes(status.resources):
            # A resize of the whole pod counts with the largest of what is asked for,
            # given and in force, except when it can never be granted.
            asked = {} if _resize_infeasible(status) else wanted
            actual = parse_amounts(
                _requirements(status.resources, "status.resources").requests,
                "status.resources.requests",
            )
            wanted = _largest(asked, actual, _allocated(status.allocated_resources, "status"))
        totals.update((name, value) for name, value in wanted.items() if _pod_level(name))
    for name, value in parse_amounts(_plain(spec.overhead, "spec"), "spec.overhead").items():
        totals[name] = totals.get(name, 0) + value
    totals["pods"] = 1
    return to_requests(_not_too_many(totals))


def _not_too_many(totals: Totals) -> Totals:
    """More kinds than any pod asks for are not all kept: TOO_MANY stands for the others."""
    asked = {name: amount for name, amount in totals.items() if amount}
    if len(asked) <= MOST_RESOURCES:
        return asked
    names = [name for name in asked if name in KNOWN]
    names += sorted(asked.keys() - KNOWN)[:MOST_RESOURCES]
    return {**{name: asked[name] for name in names}, TOO_MANY: 1}


def _containers(spec: RawPodSpec, status: RawPodStatus | None) -> Totals:
    """What the containers ask for together, counting a resize that is under way."""
    asked = _aggregate(spec, lambda container, where: _container_requests(container, where))
    if status is None or not (
        _reports(status) or (raw_bytes(status.resources) and raw_bytes(status.allocated_resources))
    ):
        return asked
    actual_pod = (
        _requirements(status.resources, "status.resources").requests
        if raw_bytes(status.resources)
        else None
    )
    if actual_pod is not None and raw_bytes(status.allocated_resources):
        actual = parse_amounts(actual_pod, "status.resources.requests")
        allocated = _allocated(status.allocated_resources, "status")
    else:
        reports = _reports(status)
        infeasible = _resize_infeasible(status)

        def given(container: RawContainer, where: str) -> Totals:
            report = reports.get(container.name or "")
            if report is not None and report[1] is not None:
                return report[1]
            return {} if infeasible else _container_requests(container, where)

        def in_force(container: RawContainer, where: str) -> Totals:
            report = reports.get(container.name or "")
            if report is not None and report[0] is not None:
                return report[0]
            return given(container, where)

        actual = _aggregate(spec, in_force)
        allocated = _aggregate(spec, given)
    if _resize_infeasible(status):
        return _largest(actual, allocated)
    return _largest(asked, actual, allocated)


def _aggregate(spec: RawPodSpec, of: Callable[[RawContainer, str], Totals]) -> Totals:
    """Sum containers and sidecars; an init container needs its own and all earlier sidecars'.

    Each looks only at what it asks for itself: a pod may have ten thousand, all of other kinds.
    """
    totals: Totals = {}
    for index, container in enumerate(spec.containers or ()):
        _add(totals, of(container, f"spec.containers[{index}].resources"))
    sidecars: Totals = {}
    peak: Totals = {}
    for index, container in enumerate(spec.init_containers or ()):
        amounts = of(container, f"spec.initContainers[{index}].resources")
        together = {name: sidecars.get(name, 0) + value for name, value in amounts.items()}
        if container.restart_policy == "Always":
            _add(totals, amounts)
            sidecars.update(together)
        for name, value in together.items():
            peak[name] = max(peak.get(name, 0), value)
    return _largest(totals, peak)


def _container_requests(container: RawContainer, where: str) -> Totals:
    resources = _requirements(container.resources, where)
    return {
        **parse_amounts(resources.limits, f"{where}.limits"),
        **parse_amounts(resources.requests, f"{where}.requests"),
    }


def _pod_level_requests(resources: RawResources, containers: Totals) -> Totals:
    """The whole pod's requests; where absent, its containers' sum, else its limit."""
    limits = parse_amounts(resources.limits, "spec.resources.limits")
    requests = parse_amounts(resources.requests, "spec.resources.requests")
    for name, limit in limits.items():
        if name not in requests and _pod_level(name):
            requests[name] = containers.get(name, limit)
    return requests if any(_pod_level(name) for name in requests) else {}


def _pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _reports(status: RawPodStatus) -> dict[str, tuple[Totals | None, Totals | None]]:
    """Container name -> (requests in force, requests given), None where not reported."""
    reports: dict[str, tuple[Totals | None, Totals | None]] = {}
    for field, statuses in (
        ("initContainerStatuses", status.init_container_statuses),
        ("containerStatuses", status.container_statuses),
    ):
        for index, report in enumerate(statuses or ()):
            where = f"status.{field}[{index}]"
            actual: Totals | None = None
            if raw_bytes(report.resources):
                listed = _requirements(report.resources, f"{where}.resources").requests
                if listed is not None:
                    actual = parse_amounts(listed, f"{where}.resources.requests")
            given = (
                _allocated(report.allocated_resources, where)
                if raw_bytes(report.allocated_resources)
                else None
            )
            if actual is not None or given is not None:
                reports[report.name or ""] = (actual, given)
    return reports


def _resize_infeasible(status: RawPodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _requirements(raw: Raw, where: str) -> RawResources:
    if not raw_bytes(raw):
        return RawResources()
    try:
        return _resources.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error


def _plain(raw: Raw, parent: str) -> RawAmounts:
    if not raw_bytes(raw):
        return {}
    try:
        return _amounts.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{parent}.overhead: {error}") from error


def _allocated(raw: Raw, parent: str) -> Totals:
    where = f"{parent}.allocatedResources"
    if not raw_bytes(raw):
        return {}
    try:
        return parse_amounts(_amounts.decode(raw), where)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error


def _add(totals: Totals, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        totals[name] = totals.get(name, 0) + value


def _largest(*several: Mapping[str, int]) -> Totals:
    result: Totals = {}
    for name in _names(several):
        result[name] = max(one[name] for one in several if name in one)
    return result


def _names(several: Iterable[Mapping[str, int]]) -> set[str]:
    return {name for one in several for name in one}
