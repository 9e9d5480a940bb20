"""What a profile makes of the plugin: its arguments, and the extension points it is called at.

The order of plugins is that of expandMultiPointPlugins in kube-scheduler's
pkg/scheduler/framework/runtime/framework.go, read at v1.36.3 and v1.37.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from extender.check.kubescheduler import PluginConfig, Profile

NAME = "PodGroupExtender"
PREEMPTION, BINDER = "DefaultPreemption", "DefaultBinder"
POINTS = ("preEnqueue", "preFilter", "filter", "postFilter", "reserve", "permit", "postBind")
"""Where the plugin has to be called, or it schedules nothing (plugin/core/profile.go)."""
_IN_TREE = {"postFilter": (PREEMPTION,), "bind": (BINDER,)}
"""Those of kube-scheduler's default plugins that matter beside ours."""


class Args(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Arguments of the plugin (plugin/core/args.go); durations as Go writes them."""

    address: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    call_timeout: str = "5s"
    heartbeat: str = "1s"
    when_cut: str = "Hold"
    barrier: str = "Permit"
    barrier_timeout: str = "45s"
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


def mentions(profile: Profile) -> bool:
    """Whether a profile enables the plugin somewhere, or configures it."""
    configured = any(each.name == NAME for each in profile.plugin_config)
    return configured or any(NAME in _listed(profile, p, "enabled") for p in profile.plugins or {})


def given(profile: Profile) -> Iterator[tuple[int, PluginConfig]]:
    """The plugin's entries of pluginConfig, with their positions."""
    return (each for each in enumerate(profile.plugin_config) if each[1].name == NAME)


def called(profile: Profile, point: str) -> list[str]:
    """Names of the plugins called at an extension point, in order; of in-tree ones few."""
    specific = _listed(profile, point, "enabled")
    off = _listed(profile, point, "disabled")
    everywhere = [] if "*" in off else _at_multi_point(profile, point)
    own = [name for name in specific if name in everywhere]
    rest = [name for name in everywhere if name not in own and name not in off]
    # Those that are at multiPoint too come first, those that are not come last.
    return own + rest + [name for name in specific if name not in own]


def _at_multi_point(profile: Profile, point: str) -> list[str]:
    """kube-scheduler's own plugins, then those that the profile adds."""
    on = _listed(profile, "multiPoint", "enabled")
    off = _listed(profile, "multiPoint", "disabled")
    default = [n for n in _IN_TREE.get(point, ()) if n not in off and "*" not in off]
    return default + [n for n in on if n not in default and _implements(n, point)]


def _implements(plugin: str, point: str) -> bool:
    others = {name for names in _IN_TREE.values() for name in names}
    return plugin not in others or plugin in _IN_TREE.get(point, ())


def _listed(profile: Profile, point: str, which: Literal["enabled", "disabled"]) -> list[str]:
    """Names in a list of a plugin set."""
    found = (profile.plugins or {}).get(point)
    if found is None:
        return []
    return [each.name for each in (found.enabled if which == "enabled" else found.disabled) or ()]
