"""The Dockerfile, as far as it can be judged without a container engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.packaging.manifests import ROOT, pick

TEXT = (ROOT / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """Every instruction with its arguments; continued lines are joined, comments left out."""
    lines = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [
        (word.upper(), rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


def last_stage() -> list[tuple[str, str]]:
    """The instructions of what is shipped."""
    found = instructions()
    start = max(index for index, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def test_everything_copied_exists_and_is_sent_to_the_engine() -> None:
    sent = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source.removeprefix("./")
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_what_the_wheel_needs_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"pyproject.toml", "setup.py", "README.md", *project["license-files"]}
    assert all(re.search(rf"COPY .*\b{re.escape(name)}\b", TEXT) for name in needed)


def test_build_is_the_script_that_the_checks_run() -> None:
    assert ("RUN", "tools/install-wheel /opt/podgroup-extender") in instructions()
    assert "tools/install-wheel" in (ROOT / ".ci" / "run").read_text()


def test_shipped_stage_is_small_and_unprivileged() -> None:
    stage = last_stage()
    words = [word for word, _ in stage]
    assert "apt-get" not in " ".join(rest for _, rest in stage)
    assert words.count("USER") == 1
    user = dict(stage)["USER"]
    context = pick("deployment.yaml", "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert words.index("USER") > max(i for i, word in enumerate(words) if word in ("RUN", "COPY"))
    assert dict(stage)["ENTRYPOINT"] == '["podgroup-extender"]'
    assert "ADD" not in words


def test_label_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert ("ARG", f"VERSION={version}") in last_stage()
    assert 'org.opencontainers.image.version="${VERSION}"' in TEXT


def test_base_image_is_chosen_once_and_not_latest() -> None:
    (image,) = [
        rest for word, rest in instructions() if word == "ARG" and rest.startswith("PYTHON_IMAGE=")
    ]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", image)
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert bases == ["${PYTHON_IMAGE}"] * 2


@pytest.mark.parametrize(
    ("image", "allow", "builds"),
    [
        ("python:3.11-slim-bookworm@sha256:" + "0" * 64, "0", True),
        ("python:3.11-slim-bookworm", "0", False),
        ("python:3.11-slim-bookworm", "", False),
        ("python:3.11-slim-bookworm", "1", True),
    ],
)
def test_base_without_digest_is_refused_unless_that_is_meant(
    image: str, allow: str, *, builds: bool
) -> None:
    first_run = next(rest for word, rest in instructions() if word == "RUN")
    done = subprocess.run(
        ["sh", "-c", first_run],
        env={"PYTHON_IMAGE": image, "ALLOW_TAG": allow},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) is builds
    assert ("no digest" in done.stderr) is not builds


def test_no_shell_is_needed_to_start() -> None:
    for word in ("ENTRYPOINT", "CMD"):
        assert isinstance(json.loads(dict(last_stage())[word]), list)
    assert not {"SHELL", "HEALTHCHECK"} & {word for word, _ in instructions()}


def test_context_is_small() -> None:
    """Whatever is sent is hashed with each build; compiled modules are of another Python."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    never = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    assert {"*.so", "__pycache__"} <= set(never)
    sent = [
        path
        for name in (line[1:] for line in lines if line.startswith("!"))
        for path in (ROOT / name, *(ROOT / name).rglob("*"))
        if path.is_file() and not any(fnmatch(part, rule) for part in path.parts for rule in never)
    ]
    assert len(sent) > 300
    assert sum(path.stat().st_size for path in sent) < 6 << 20


# ./run image ------------------------------------------------------------------------------------

IMAGE = ROOT / "tools" / "image"
BUILD, START, PLAINLY = ((IMAGE / name).read_text() for name in ("build", "start", "start-plainly"))


@pytest.mark.parametrize("name", ["build", "start", "start-plainly"])
def test_scripts_can_be_read(name: str) -> None:
    subprocess.run(["sh", "-n", str(IMAGE / name)], check=True)
    assert os.access(IMAGE / name, os.X_OK)


def test_stand_in_is_the_same_debian_with_the_same_arguments() -> None:
    declared = [rest.partition("=") for word, rest in instructions() if word == "ARG"]
    arguments = {name: value for name, equals, value in declared if equals}
    assert set(re.findall(r"--build-arg (\w+)=", BUILD)) <= set(arguments)
    (suite,) = re.findall(r"suite=\$\{SUITE:-(\w+)\}", BUILD)
    assert arguments["PYTHON_IMAGE"].partition("@")[0].endswith(f"-slim-{suite}")
    assert "ALLOW_TAG" not in BUILD  # It has a digest, as what is shipped has.


def test_it_is_started_as_the_manifests_start_it() -> None:
    pod = pick("sidecar.yaml", "Deployment")["spec"]["template"]["spec"]
    (extender,) = [each for each in pod["initContainers"] if each["name"] == "extender"]
    rights = extender["securityContext"]
    assert (rights["readOnlyRootFilesystem"], "--read-only " in START) == (True, True)
    assert (rights["capabilities"], "--cap-drop ALL" in START) == ({"drop": ["ALL"]}, True)
    assert (rights["allowPrivilegeEscalation"], "no-new-privileges" in START) == (False, True)
    (memory,) = re.findall(r"--memory (\w+)", START)
    assert f"{memory.upper()}i" == extender["resources"]["limits"]["memory"]
    (tmp,) = [each["emptyDir"] for each in pod["volumes"] if each["name"] == "tmp"]
    (size,) = re.findall(r"--tmpfs /tmp:size=(\w+)", START)
    assert f"{size.upper()}i".replace("MI", "Mi") == tmp["sizeLimit"]
    assert "--user" not in START  # The image's own is looked at.
    (user,) = [rest for word, rest in last_stage() if word == "USER"]
    assert f"= {user} ]" in START
    assert f"--userspec={user}" in PLAINLY


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder that is all there is on PATH: shell tools, and an id that says whom it is told."""
    for name in ("sh", "dirname", "date", "mktemp", "rm", "mkdir", "cat", "tail"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "id").write_text("#!/bin/sh\necho ${PLAYED_UID:-0}\n")
    (tmp_path / "id").chmod(0o755)
    return tmp_path


def build_on(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy that looks nowhere else for programs."""
    script = machine / "build"
    script.write_text(BUILD.replace("PATH=$PATH:/usr/sbin:/sbin", ""))
    return subprocess.run(
        ["sh", str(script), str(machine / "work")],
        env={"PATH": str(machine), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_ordinary_user_is_told_what_is_missing(machine: Path) -> None:
    done = build_on(machine, PLAYED_UID="1000")
    assert done.returncode == 1
    assert "needs root" in done.stderr
    assert "apt-get install buildah debootstrap podman runc" in done.stderr
    (machine / "podman").symlink_to("/bin/true")
    (machine / "runc").symlink_to("/bin/true")
    assert "apt-get install buildah debootstrap\n" in build_on(machine, PLAYED_UID="1000").stderr
    assert not (machine / "work").exists()


def test_root_installs_it_and_hears_why_that_fails(machine: Path) -> None:
    done = build_on(machine)
    assert "missing: buildah debootstrap podman runc" in done.stderr  # And no apt-get.
    apt = machine / "apt-get"
    apt.write_text('#!/bin/sh\necho "apt-get $*"\n[ "$1" = update ]\n')
    apt.chmod(0o755)
    (machine / "env").symlink_to("/usr/bin/env")
    (machine / "mount").symlink_to("/bin/false")
    done = build_on(machine)
    assert done.returncode == 1
    packages = "buildah debootstrap podman runc"
    assert f"apt-get install --yes --no-install-recommends {packages}" in done.stderr
    assert "apt-install failed" in done.stderr
