"""Changes to an installation that make it unsafe, to be put together to cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, WAYS, Installation, Object

Change = Callable[[Installation], object]
EVERY = (SECOND, STATIC, DEPLOYMENT)
IN_CLUSTER = (SECOND, DEPLOYMENT)


def on_pod(**values: Any) -> Change:
    """Change the pod's spec; None removes a key."""
    return lambda installation: put(installation.pod, values)


def on_container(path: str = "", **values: Any) -> Change:
    """Change the extender's container, or a mapping in it."""

    def change(installation: Installation) -> None:
        target = installation.extender
        for step in filter(None, path.split(".")):
            target = target[step]
        put(target, values)

    return change


def put(target: Object, values: Object) -> None:
    for key, value in values.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value


def on_context(**values: Any) -> Change:
    """Change what container and pod say in securityContext, together."""

    def change(installation: Installation) -> None:
        put(installation.pod.setdefault("securityContext", {}), dict.fromkeys(values))
        put(installation.extender["securityContext"], values)

    return change


def on_policies(**values: Any) -> Change:
    """Change the spec of every NetworkPolicy."""

    def apply(installation: Installation) -> None:
        for policy in installation.objects("NetworkPolicy"):
            put(policy["spec"], values)

    return apply


def on_budget(**values: Any) -> Change:
    """Replace what the PodDisruptionBudget demands."""

    def change(installation: Installation) -> None:
        (budget,) = installation.objects("PodDisruptionBudget")
        budget["spec"] = {"selector": budget["spec"]["selector"], **values}

    return change


def on_role(kind: str, change: Callable[[list[Object]], object]) -> Change:
    """Change the rules of rbac.yaml's role."""

    def apply(installation: Installation) -> None:
        for role in installation.objects(kind):
            if role["metadata"]["name"] == "podgroup-extender":
                change(role["rules"])

    return apply


def without(resource: str) -> Callable[[list[Object]], object]:
    """Leave out the rule on a resource."""

    def change(rules: list[Object]) -> None:
        rules[:] = [rule for rule in rules if rule["resources"] != [resource]]

    return change


def on_entries(**values: Any) -> Change:
    """Change kube-scheduler's entries."""

    def change(installation: Installation) -> None:
        for entry in installation.entries:
            put(entry, values)

    return change


def on_settings(section: str, **values: Any) -> Change:
    """Change the extender's own settings."""
    return lambda installation: installation.configure(
        lambda settings: put(settings.setdefault(section, {}), values)
    )


def bound_to(role: str) -> Change:
    """One more binding of the extender's account."""

    def change(installation: Installation) -> None:
        (binding,) = [
            each
            for each in installation.objects("ClusterRoleBinding")
            if each["metadata"]["name"] == "podgroup-extender"
        ]
        more = {**binding, "metadata": {"name": "more"}}
        installation.add(more | {"roleRef": {**binding["roleRef"], "name": role}})

    return change


def for_group(name: str) -> Change:
    """The extender's rights for a group."""

    def change(installation: Installation) -> None:
        for binding in installation.objects("ClusterRoleBinding"):
            if binding["metadata"]["name"] == "podgroup-extender":
                binding["subjects"].append({"kind": "Group", "name": name})

    return change


def others_bound(role: str, *rights: tuple[str, str], everywhere: bool = False) -> Change:
    """Somebody else has a role in the records' namespace; with ``rights`` it is among the files."""

    def change(installation: Installation) -> None:
        metadata = {"name": role, "namespace": "podgroup-extender"}
        kind = "ClusterRole" if everywhere or not rights else "Role"
        if rights:
            rules = [
                {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
                for resource, verb in rights
            ]
            installation.add({"kind": kind, "metadata": metadata, "rules": rules})
        reference = {"kind": kind, "name": role}
        subjects = [{"kind": "Group", "name": "team"}]
        kind = "ClusterRoleBinding" if everywhere else "RoleBinding"
        installation.add(
            {"kind": kind, "metadata": metadata, "roleRef": reference, "subjects": subjects}
        )

    return change


def signed(change: Change) -> Change:
    """With a key for records where the manifests mount it."""

    def both(installation: Installation) -> None:
        on_settings("seats", recordKeyFile=KEYS[installation.way])(installation)
        change(installation)

    return both


def on_neighbour(installation: Installation) -> None:
    """Another workload under the extender's account."""
    other = {"serviceAccountName": "podgroup-extender", "containers": [{"name": "web"}]}
    metadata = {"name": "web", "namespace": "podgroup-extender"}
    installation.add({"kind": "Pod", "metadata": metadata, "spec": other, "apiVersion": "v1"})


def writable_host_path(installation: Installation) -> None:
    for volume in installation.pod["volumes"]:
        if volume["name"] in ("extender", "extender-config"):
            volume.clear()
            volume.update({"name": "host", "hostPath": {"path": "/etc/podgroup-extender"}})
    for mount in installation.extender["volumeMounts"]:
        if mount["name"] in ("extender", "extender-config"):
            mount.update({"name": "host", "readOnly": False})


def plain_calls(installation: Installation) -> None:
    """kube-scheduler speaks HTTP to a server with a certificate."""
    for entry in installation.entries:
        entry["urlPrefix"] = entry["urlPrefix"].replace("https:", "http:")
        entry.pop("tlsConfig")


def under_another_name(installation: Installation) -> None:
    """What is called otherwise is looked at as well."""
    put(installation.extender, {"resources": None})
    installation.extender["name"] = "gangs"


def arguments(old: str, new: str) -> Change:
    """Replace a word of the extender's command line."""

    def change(installation: Installation) -> None:
        words = installation.extender["args"]
        assert old in words
        words[words.index(old)] = new

    return change


def more_flags(*words: str) -> Change:
    """More words on kube-scheduler's command line, as the chart's scheduler.extraArgs."""

    def change(installation: Installation) -> None:
        for container in installation.pod["containers"]:
            if container["name"] == "kube-scheduler":
                container["command"] = [*container["command"], *words]

    return change


def more_words(*words: str) -> Change:
    """More words on the extender's command line."""

    def change(installation: Installation) -> None:
        installation.extender["args"] = [*installation.extender["args"], *words]

    return change


def both(*changes: Change) -> Change:
    """One after the other."""

    def change(installation: Installation) -> None:
        for each in changes:
            each(installation)

    return change


def on_scheduler_config(**values: Any) -> Change:
    """Change kube-scheduler's configuration."""

    def change(installation: Installation) -> None:
        (document,) = installation.files[WAYS[installation.way].scheduler_config]
        put(document, values)

    return change


def own_lease_left_out(installation: Installation) -> None:
    """The second kube-scheduler takes part in the election of the cluster's own."""
    (document,) = installation.files[WAYS[installation.way].scheduler_config]
    document["leaderElection"] = {"leaderElect": True}


def annotated(key: str, value: str) -> Change:
    """An annotation on the pods' template."""

    def change(installation: Installation) -> None:
        for each in installation.objects("Deployment"):
            meta = each["spec"]["template"]["metadata"]
            meta.setdefault("annotations", {})[key] = value

    return change


def cases(ways: tuple[str, ...], changes: dict[str, Change]) -> list[Any]:
    """Unsafe changes in each of these ways, each under what must be found of it and a name."""
    return [
        pytest.param(way, change, set(found.split(", ")), id=f"{name}, {way}")
        for text, change in changes.items()
        for found, _, name in [text.partition(": ")]
        for way in ways
    ]


KEYS = {
    SECOND: "/etc/podgroup-extender-records/key",
    DEPLOYMENT: "/etc/podgroup-extender-records/key",
    STATIC: "/etc/podgroup-extender/records.key",
}
