"""Namespaces and their labels, as the namespace selectors of affinity terms see them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from extender.fit.selectors import Labels, matches
from extender.model.objects import PodAffinityTerm
from extender.model.snapshot import Snapshot

_NO_LABELS: Labels = {}
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_FIRST_LEAK, _LAST_LEAK = (1, 34, 0), (1, 36, 3)


class Namespaces(NamedTuple):
    """Labels by namespace, and whether this release's scheduler has the fault below."""

    labels: Mapping[str, Labels]
    leak: bool = False
    """kube-scheduler 1.34 to 1.36.3 looks at the namespace selector of an incoming pod's
    term twice: for the namespaces it picks, then again with no labels at all. One that
    picks the unlabelled (NotIn, DoesNotExist) so reaches every namespace.
    kubernetes/kubernetes issue 141526; right again in 1.37.0."""


def namespaces_of(snapshot: Snapshot) -> Namespaces:
    """Return the snapshot's namespaces with the fault of the release it comes from.

    An unknown version counts as one without the fault.
    """
    found = _VERSION.match(snapshot.server_version)
    version = tuple(int(part) for part in found.groups()) if found else ()
    return Namespaces(snapshot.namespaces, leak=_FIRST_LEAK <= version <= _LAST_LEAK)


def reached(term: PodAffinityTerm, namespace: str, known: Namespaces) -> bool:
    """Tell whether an incoming pod's term reaches pods in the namespace.

    kube-scheduler turns the selector into the namespaces that exist, so one it
    does not know is reached by name or by the empty selector only.
    """
    if namespace in term.namespaces:
        return True
    selector = term.namespace_selector
    if selector is None:
        return False
    if not selector.requirements:
        return True
    labels = known.labels.get(namespace)
    if labels is not None and matches(selector, labels):
        return True
    return known.leak and matches(selector, _NO_LABELS)


def reached_from(term: PodAffinityTerm, namespace: str, known: Namespaces) -> bool:
    """Tell whether an existing pod's term reaches an incoming pod in the namespace.

    Here an unknown namespace counts as one without labels, and there is no fault.
    """
    return namespace in term.namespaces or matches(
        term.namespace_selector, known.labels.get(namespace, _NO_LABELS)
    )
