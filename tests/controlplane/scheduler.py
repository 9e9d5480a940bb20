"""The kube-scheduler configuration that the project documents for its users."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

Object = dict[str, Any]

EXTENDER: Object = {
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "nodeCacheCapable": True,
    "ignorable": False,
    "httpTimeout": "5s",
}
"""An extender entry without its address."""

BINDER: Object = {
    "bindVerb": "bind",
    "nodeCacheCapable": True,
    "ignorable": False,
    "httpTimeout": "45s",
}
"""The entry of the bind barrier without its address: every pod is bound by the extender."""


PLUGIN = "PodGroupExtender"


def plugin_config(address: str, **args: Any) -> Object:
    """A KubeSchedulerConfiguration for a kube-scheduler that is built with our plugin.

    ``address`` is that of the extender's gRPC; keyword arguments are further ones of the plugin.
    """
    plugins: Object = {
        "multiPoint": {
            "enabled": [{"name": PLUGIN}],
            "disabled": [{"name": "DefaultPreemption"}],
        }
    }
    if args.get("barrier") == "Bind":
        plugins["bind"] = {"enabled": [{"name": PLUGIN}]}
    config = scheduler_config()
    config["profiles"] = [
        {
            "schedulerName": "default-scheduler",
            "plugins": plugins,
            "pluginConfig": [{"name": PLUGIN, "args": {"address": address, **args}}],
        }
    ]
    return config


def scheduler_config(extender_url: str | None = None, **extender_overrides: Any) -> Object:
    """A KubeSchedulerConfiguration, with the extender at the given URL or with none.

    Keyword arguments change the extender's entry (``httpTimeout="1s"``); ``None`` removes a key.
    The caller may change the returned document further before it is used.
    """
    config: Object = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        # The default of 50 requests a second would measure the client, not the scheduler.
        "clientConnection": {"qps": 5000, "burst": 10000},
    }
    if extender_url is not None:
        entry = {"urlPrefix": extender_url, **EXTENDER, **extender_overrides}
        config["extenders"] = [{key: value for key, value in entry.items() if value is not None}]
    return config


def write_scheduler_config(path: Path, config: Object, kubeconfig: Path) -> Path:
    """Write a configuration with the kubeconfig filled in, unless it names one itself."""
    document = copy.deepcopy(config)
    document.setdefault("clientConnection", {}).setdefault("kubeconfig", str(kubeconfig))
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
