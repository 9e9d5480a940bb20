"""Packages, images, accounts, budgets and networks. Row 10 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_CHECK = "tests/cli/test_check_unsafe.py::"
FOUND = f"{TEST_CHECK}test_unsafe_change_is_found"
SHIPPED = f"{TEST_CHECK}test_shipped_installation_passes"
TEST_MANIFESTS = "tests/packaging/test_manifests.py::"
TEST_LOCKS = "tests/packaging/test_requirements.py::"

MUTANTS = taken_out(
    10,
    "run",
    (
        "packages are installed with hashes",
        "--require-hashes --only-binary=:all: $files",
        "--only-binary=:all: $files",
        f"{TEST_LOCKS}test_nothing_is_installed_without_hashes[run]",
    ),
    (
        "nothing is built that no hash stands for",
        "--require-hashes --only-binary=:all: $files",
        "--require-hashes $files",
        f"{TEST_LOCKS}test_nothing_is_installed_without_hashes[run]",
    ),
    "tools/install-wheel",
    (
        "the image installs with hashes",
        '--require-hashes -r "$here/requirements/runtime.txt"',
        '-r "$here/requirements/runtime.txt"',
        f"{TEST_LOCKS}test_nothing_is_installed_without_hashes[tools/install-wheel]",
    ),
    (
        "the SBOM is in the image",
        '"$here/tools/sbom.py" --output',
        '"$here/tools/none.py" --output',
        "tests/packaging/test_requirements.py::test_the_image_has_one_of_its_own",
    ),
    "requirements/build.txt",
    (
        "each locked file has its hash",
        "setuptools==84.2.1 \\\n",
        "setuptools==84.2.1\n# ",
        f"{TEST_LOCKS}test_every_file_that_may_be_installed_has_a_hash",
    ),
    "pyproject.toml",
    (
        "what builds is pinned",
        'requires = ["setuptools==84.2.1", "cython==3.3.1"]',
        'requires = ["setuptools>=80", "cython==3.3.1"]',
        f"{TEST_LOCKS}test_build_requirements_are_the_pinned_ones",
    ),
    "Dockerfile",
    (
        "a base image without digest is refused",
        '*) [ "$ALLOW_TAG" = 1 ] ||',
        "*) true ||",
        (
            "tests/packaging/test_dockerfile.py::"
            "test_base_without_digest_is_refused_unless_that_is_meant"
        ),
    ),
    "extender/check/pod_rules.py",
    (
        "check warns of images by tag",
        '        if "@sha256:" in image:\n',
        "        if image:\n",
        f"{SHIPPED}[deployment]",
    ),
    (
        "check finds an image without a version",
        '"image-latest" if tag in ("", "latest") else "image-tag"',
        '"image-tag"',
        f"{FOUND}[latest, deployment]",
    ),
    (
        "check finds kube-scheduler's kubeconfig",
        "        elif kubeconfig in theirs:\n",
        "        elif False:\n",
        f"{FOUND}[kube-scheduler's kubeconfig, static pod]",
    ),
    (
        "check finds an account that others have",
        "            other.extender is None\n",
        "            False\n",
        f"{FOUND}[account of another pod, deployment]",
    ),
    "tools/sbom.py",
    (
        "the SBOM has a hash for every package",
        "        if not sums:\n",
        "        if False:\n",
        "tests/packaging/test_requirements.py::test_what_cannot_be_accounted_for_is_an_error",
    ),
    (
        "the SBOM has the versions that are installed",
        "        if version != present:\n",
        "        if False:\n",
        "tests/packaging/test_requirements.py::test_what_cannot_be_accounted_for_is_an_error",
    ),
    "tools/audit.py",
    (
        "an audit finds what is known",
        'if version in (affected.get("versions") or []):',
        "if False:",
        "tests/packaging/test_requirements.py::test_a_version_in_the_list_is_affected",
    ),
    (
        "an audit that left a package out says so",
        'if reason := each.get("skip_reason"):',
        'if reason := each.get("none"):',
        "tests/packaging/test_requirements.py::test_a_package_that_was_not_looked_up_is_not_called_fine",
    ),
    (
        "an audit that could not be made says so",
        "FINE, VULNERABLE, UNKNOWN = 0, 1, 75",
        "FINE, VULNERABLE, UNKNOWN = 0, 1, 0",
        "tests/packaging/test_requirements.py::test_three_ends",
    ),
    "manifests/static-pod/kube-scheduler.yaml",
    (
        "the static pod has a kubeconfig of its own",
        "        - --kubeconfig=/etc/podgroup-extender/kubeconfig\n",
        "        - --kubeconfig=/etc/kubernetes/scheduler.conf\n",
        f"{SHIPPED}[static pod]",
    ),
    "extender/check/rights_rules.py",
    (
        "check finds an administrator's rights",
        "        if role in ADMINISTRATORS:\n",
        "        if False:\n",
        f"{FOUND}[cluster-admin, deployment]",
    ),
    (
        "check finds rights that are not used",
        "if more := verbs - used.get(of, frozenset()) - known:",
        "if more := set[str]():",
        f"{FOUND}[Secrets, deployment]",
    ),
    "manifests/rbac.yaml",
    (
        "the manifests grant what is used and no more",
        "resources: [pods/eviction]",
        "resources: [pods/eviction, secrets]",
        f"{TEST_MANIFESTS}test_rights_are_those_that_check_knows",
    ),
    "manifests/deployment.yaml",
    (
        "a token is mounted for our container alone",
        "automountServiceAccountToken: false",
        "automountServiceAccountToken: true",
        f"{TEST_MANIFESTS}test_tokens_are_mounted_where_they_are_used[deployment.yaml]",
    ),
    (
        "a drain leaves a replica",
        "kind: PodDisruptionBudget",
        "kind: ConfigMap",
        f"{SHIPPED}[deployment]",
    ),
    "extender/check/network_rules.py",
    (
        "check finds a missing budget",
        "        if not around:\n",
        "        if False:\n",
        f"{FOUND}[no budget, deployment]",
    ),
    (
        "check finds a budget that blocks drains",
        'if most in (0, "0%") or least == "100%" or all_needed:',
        "if False:",
        f"{FOUND}[budget of nothing, deployment]",
    ),
    (
        "check finds a missing policy",
        "if not any(direction in _types(spec) for _, spec in around):",
        "if False:",
        f"{FOUND}[no NetworkPolicy, deployment]",
    ),
    (
        "check finds a policy for everybody",
        "        if not peers or _reach_everybody(peers):\n",
        "        if not peers:\n",
        f"{FOUND}[every namespace comes in, deployment]",
    ),
    (
        "check finds a way out to everywhere",
        '        if anywhere and not items(rule, "ports"):\n',
        "        if False:\n",
        f"{FOUND}[out to everywhere, deployment]",
    ),
    "manifests/namespace.yaml",
    (
        "the namespace denies by default",
        "policyTypes: [Ingress, Egress]",
        "policyTypes: [Ingress]",
        f"{TEST_MANIFESTS}test_namespace_denies_by_default",
    ),
)
