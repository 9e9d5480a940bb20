"""Configurations of kube-scheduler for the tests of ``check``: a safe one, and changes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Change = Callable[[Object], object]

SAFE: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:8888",
            "filterVerb": "filter",
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
            "ignorable": False,
            "httpTimeout": "5s",
        }
    ],
}

OTHER: Object = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f", "nodeCacheCapable": True}


def ours(**values: Any) -> Change:
    """Change our entry; None removes a key."""

    def change(document: Object) -> None:
        entry = document["extenders"][0]
        entry.update(values)
        for key in [key for key, value in entry.items() if value is None]:
            del entry[key]

    return change


def top(**values: Any) -> Change:
    """Change the document itself."""
    return lambda document: document.update(values)


def preemption_args(**args: Any) -> Change:
    """Replace the arguments of DefaultPreemption."""
    return lambda document: document["profiles"][0].update(
        pluginConfig=[{"name": "DefaultPreemption", "args": args}]
    )


def split(document: Object) -> None:
    """Filter fails open, preempt fails closed."""
    whole = document["extenders"][0]
    preempt = {k: whole[k] for k in ("urlPrefix", "preemptVerb", "nodeCacheCapable")}
    rest = {k: v for k, v in whole.items() if k != "preemptVerb"} | {"ignorable": True}
    document["extenders"] = [preempt, rest]


def beside(*others: Object, before: bool = True) -> Change:
    """Put other extenders before or after ours."""
    return lambda document: document.update(
        extenders=[*others, *document["extenders"]] if before else [*document["extenders"], *others]
    )
