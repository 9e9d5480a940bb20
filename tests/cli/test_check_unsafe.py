"""``check`` lets every shipped installation pass, and no unsafe change to one of them.

See docs/security.md, rows 7, 10 and 13.
"""

from __future__ import annotations

import pytest

from extender.check.flag_rules import FLAG_RULES
from extender.check.network_rules import NETWORK_RULES
from extender.check.pod_rules import POD_RULES
from extender.check.rights_rules import RIGHTS_RULES
from extender.check.tenant_rules import LIMIT_RULES, POLICY_RULES
from tests.cli.installations import DEPLOYMENT, SECOND, STATIC, WAYS, Installation
from tests.cli.unsafe_changes import Change, on_settings, others_bound, signed
from tests.cli.unsafe_installations import (
    AROUND,
    CALLS,
    FLAGS,
    LISTENERS,
    PODS,
    RIGHTS,
    SETTINGS,
    TENANTS,
)

TENANTS_TRUSTED = {
    "hint shields-for-all",  # PodDisruptionBudgets count, as Kubernetes promises.
    "hint records-unsigned",  # A key is the administrator's to make.
}
ACCEPTED = {
    SECOND: {
        "warning image-tag",  # A digest is known only once an image was built and pushed.
        "hint shared-account",  # A pod has one account.
        "hint egress-anywhere",  # The API server's address is each cluster's own.
        "hint open-metrics",  # Behind the NetworkPolicy, for Prometheus.
        *TENANTS_TRUSTED,
    },
    STATIC: {"warning image-tag", *TENANTS_TRUSTED},
    DEPLOYMENT: {
        "warning image-tag",
        "warning ignorable-filter",  # Or its own pod could never be placed again.
        "warning example-address",  # Of the control plane, to be written by who installs.
        "hint egress-anywhere",
        *TENANTS_TRUSTED,
    },
}
"""What is said about the manifests as they are."""
CASES = [*PODS, *AROUND, *RIGHTS, *CALLS, *LISTENERS, *TENANTS, *FLAGS, *SETTINGS]


def named(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """``severity rule`` of everything that is found."""
    return {f"{each.severity} {each.rule}" for each in installation.check(monkeypatch)}


@pytest.mark.parametrize("way", WAYS)
def test_shipped_installation_passes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named(Installation(way), monkeypatch) == ACCEPTED[way]
    assert not any(line.startswith("error") for line in ACCEPTED[way])


@pytest.mark.parametrize(("way", "change", "expected"), CASES)
def test_unsafe_change_is_found(
    way: str, change: Change, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation(way)
    change(installation)
    found = named(installation, monkeypatch)
    assert found >= expected
    assert not expected & ACCEPTED[way]


def test_every_rule_on_manifests_and_tenants_is_broken_by_a_case() -> None:
    broken = {line.split()[1] for each in CASES for line in each.values[-1]}
    accepted = {line.split()[1] for lines in ACCEPTED.values() for line in lines}
    tables = (POD_RULES, NETWORK_RULES, RIGHTS_RULES, POLICY_RULES, LIMIT_RULES, FLAG_RULES)
    rules = {name for table in tables for name in table}
    assert rules <= broken | accepted


@pytest.mark.parametrize("way", WAYS)
def test_a_digest_ends_the_warning_about_tags(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(way)
    for field in ("initContainers", "containers"):
        for container in installation.pod.get(field, []):
            container["image"] += "@sha256:" + "0" * 64
    assert "warning image-tag" not in named(installation, monkeypatch)


@pytest.mark.parametrize("way", WAYS)
def test_a_key_and_selectors_end_the_hints_about_tenants(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key, who writes ConfigMaps and cannot read it is no danger."""
    installation = Installation(way)
    signed(others_bound("writers", ("configmaps", "create")))(installation)
    chosen = {"namespaces": {"matchLabels": {"podgroup-extender.io/opt-out": "allowed"}}}
    rules = {"PodDisruptionBudget": {**chosen, "shields": "gang"}, "DaemonSet": chosen}
    on_settings("policy", optOut=rules)(installation)
    assert named(installation, monkeypatch) == ACCEPTED[way] - TENANTS_TRUSTED


def test_addresses_end_the_remarks_about_them(monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(DEPLOYMENT)
    for policy in installation.objects("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            for peer in rule["from"]:
                if "ipBlock" in peer:
                    peer["ipBlock"]["cidr"] = "10.1.0.0/28"
        for rule in policy["spec"].get("egress", []):
            rule.setdefault("to", [{"ipBlock": {"cidr": "10.1.0.0/28"}}])
    found = named(installation, monkeypatch)
    assert not found & {"warning example-address", "hint egress-anywhere"}
