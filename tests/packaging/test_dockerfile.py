"""The Dockerfile, as far as it can be judged without a container engine."""

from __future__ import annotations

import re
import subprocess
import tomllib

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
    needed = {"pyproject.toml", "setup.py", project["readme"], *project["license-files"]}
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
    image: str, allow: str, builds: bool
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


def test_stand_in_build_is_of_this_file_and_can_be_read() -> None:
    """`./run image` runs it; here is no engine."""
    script = ROOT / "tools" / "image" / "build"
    subprocess.run(["sh", "-n", str(script)], check=True)
    text = script.read_text()
    arguments = {rest.partition("=")[0] for word, rest in instructions() if word == "ARG"}
    assert set(re.findall(r"--build-arg (\w+)=", text)) <= arguments
    (user,) = [rest for word, rest in last_stage() if word == "USER"]
    assert f"--userspec={user}" in text
    assert f"= {user} ]" in text
