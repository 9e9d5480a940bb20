"""Packages, images, accounts, budgets and networks. Row 10 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import Mutant

ROW = 10
TEST_CHECK = "tests/cli/test_check_unsafe.py::"
FOUND = f"{TEST_CHECK}test_unsafe_change_is_found"
SHIPPED = f"{TEST_CHECK}test_shipped_installation_passes"
PODS = "extender/check/pod_rules.py"
NETWORK = "extender/check/network_rules.py"
GRANTED = "extender/check/rights_rules.py"
DEPLOYMENT = "manifests/deployment.yaml"
TEST_MANIFESTS = "tests/packaging/test_manifests.py::"
TEST_LOCKS = "tests/packaging/test_requirements.py::"

MUTANTS = (
    Mutant(
        ROW,
        "packages are installed with hashes",
        "run",
        "--require-hashes --only-binary=:all: $files",
        "--only-binary=:all: $files",
        f"{TEST_LOCKS}test_nothing_is_installed_without_hashes[run]",
    ),
    Mutant(
        ROW,
        "nothing is built that no hash stands for",
        "run",
        "--require-hashes --only-binary=:all: $files",
        "--require-hashes $files",
        f"{TEST_LOCKS}test_nothing_is_installed_without_hashes[run]",
    ),
    Mutant(
        ROW,
        "the image installs with hashes",
        "tools/install-wheel",
        '--require-hashes -r "$here/requirements/runtime.txt"',
        '-r "$here/requirements/runtime.txt"',
        f"{TEST_LOCKS}test_nothing_is_installed_without_hashes[tools/install-wheel]",
    ),
    Mutant(
        ROW,
        "each locked file has its hash",
        "requirements/build.txt",
        "setuptools==84.2.1 \\\n",
        "setuptools==84.2.1\n# ",
        f"{TEST_LOCKS}test_every_file_that_may_be_installed_has_a_hash",
    ),
    Mutant(
        ROW,
        "what builds is pinned",
        "pyproject.toml",
        'requires = ["setuptools==84.2.1", "cython==3.3.1"]',
        'requires = ["setuptools>=80", "cython==3.3.1"]',
        f"{TEST_LOCKS}test_build_requirements_are_the_pinned_ones",
    ),
    Mutant(
        ROW,
        "a base image without digest is refused",
        "Dockerfile",
        '*) [ "$ALLOW_TAG" = 1 ] ||',
        "*) true ||",
        "tests/packaging/test_dockerfile.py::"
        "test_base_without_digest_is_refused_unless_that_is_meant",
    ),
    Mutant(
        ROW,
        "check warns of images by tag",
        PODS,
        '        if "@sha256:" in image:\n',
        "        if image:\n",
        f"{SHIPPED}[deployment]",
    ),
    Mutant(
        ROW,
        "check finds an image without a version",
        PODS,
        '"image-latest" if tag in ("", "latest") else "image-tag"',
        '"image-tag"',
        f"{FOUND}[latest, deployment]",
    ),
    Mutant(
        ROW,
        "the SBOM has a hash for every package",
        "tools/sbom.py",
        "        if not sums:\n",
        "        if False:\n",
        "tests/packaging/test_sbom.py::test_what_cannot_be_accounted_for_is_an_error",
    ),
    Mutant(
        ROW,
        "the SBOM has the versions that are installed",
        "tools/sbom.py",
        "        if version != present:\n",
        "        if False:\n",
        "tests/packaging/test_sbom.py::test_what_cannot_be_accounted_for_is_an_error",
    ),
    Mutant(
        ROW,
        "the SBOM is in the image",
        "tools/install-wheel",
        '"$here/tools/sbom.py" --output',
        '"$here/tools/none.py" --output',
        "tests/packaging/test_sbom.py::test_the_image_has_one_of_its_own",
    ),
    Mutant(
        ROW,
        "an audit finds what is known",
        "tools/audit.py",
        'if version in (affected.get("versions") or []):',
        "if False:",
        "tests/packaging/test_audit.py::test_a_version_in_the_list_is_affected",
    ),
    Mutant(
        ROW,
        "an audit that left a package out says so",
        "tools/audit.py",
        'if reason := each.get("skip_reason"):',
        'if reason := each.get("none"):',
        "tests/packaging/test_audit.py::test_a_package_that_was_not_looked_up_is_not_called_fine",
    ),
    Mutant(
        ROW,
        "an audit that could not be made says so",
        "tools/audit.py",
        "FINE, VULNERABLE, UNKNOWN = 0, 1, 75",
        "FINE, VULNERABLE, UNKNOWN = 0, 1, 0",
        "tests/packaging/test_audit.py::test_three_ends",
    ),
    Mutant(
        ROW,
        "the static pod has a kubeconfig of its own",
        "manifests/static-pod/kube-scheduler.yaml",
        "        - --kubeconfig=/etc/podgroup-extender/kubeconfig\n",
        "        - --kubeconfig=/etc/kubernetes/scheduler.conf\n",
        f"{SHIPPED}[static pod]",
    ),
    Mutant(
        ROW,
        "check finds kube-scheduler's kubeconfig",
        PODS,
        "        elif kubeconfig in theirs:\n",
        "        elif False:\n",
        f"{FOUND}[kube-scheduler's kubeconfig, static pod]",
    ),
    Mutant(
        ROW,
        "check finds an account that others have",
        PODS,
        "            other.extender is None\n",
        "            False\n",
        f"{FOUND}[account of another pod, deployment]",
    ),
    Mutant(
        ROW,
        "check finds an administrator's rights",
        GRANTED,
        "        if role in ADMINISTRATORS:\n",
        "        if False:\n",
        f"{FOUND}[cluster-admin, deployment]",
    ),
    Mutant(
        ROW,
        "check finds rights that are not used",
        GRANTED,
        "if more := verbs - used.get(of, frozenset()) - known:",
        "if more := set[str]():",
        f"{FOUND}[Secrets, deployment]",
    ),
    Mutant(
        ROW,
        "the manifests grant what is used and no more",
        "manifests/rbac.yaml",
        "resources: [pods/eviction]",
        "resources: [pods/eviction, secrets]",
        f"{TEST_MANIFESTS}test_rights_are_those_that_check_knows",
    ),
    Mutant(
        ROW,
        "a token is mounted for our container alone",
        DEPLOYMENT,
        "automountServiceAccountToken: false",
        "automountServiceAccountToken: true",
        f"{TEST_MANIFESTS}test_tokens_are_mounted_where_they_are_used[deployment.yaml]",
    ),
    Mutant(
        ROW,
        "a drain leaves a replica",
        DEPLOYMENT,
        "kind: PodDisruptionBudget",
        "kind: ConfigMap",
        f"{SHIPPED}[deployment]",
    ),
    Mutant(
        ROW,
        "check finds a missing budget",
        NETWORK,
        "        if not around:\n",
        "        if False:\n",
        f"{FOUND}[no budget, deployment]",
    ),
    Mutant(
        ROW,
        "check finds a budget that blocks drains",
        NETWORK,
        'if most in (0, "0%") or least == "100%" or all_needed:',
        "if False:",
        f"{FOUND}[budget of nothing, deployment]",
    ),
    Mutant(
        ROW,
        "the namespace denies by default",
        "manifests/namespace.yaml",
        "policyTypes: [Ingress, Egress]",
        "policyTypes: [Ingress]",
        f"{TEST_MANIFESTS}test_namespace_denies_by_default",
    ),
    Mutant(
        ROW,
        "check finds a missing policy",
        NETWORK,
        "if not any(direction in _types(spec) for _, spec in around):",
        "if False:",
        f"{FOUND}[no NetworkPolicy, deployment]",
    ),
    Mutant(
        ROW,
        "check finds a policy for everybody",
        NETWORK,
        "        if not peers or _reach_everybody(peers):\n",
        "        if not peers:\n",
        f"{FOUND}[every namespace comes in, deployment]",
    ),
    Mutant(
        ROW,
        "check finds a way out to everywhere",
        NETWORK,
        '        if anywhere and not items(rule, "ports"):\n',
        "        if False:\n",
        f"{FOUND}[out to everywhere, deployment]",
    ),
)
