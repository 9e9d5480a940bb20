"""The audit: what is known is told, and what could not be looked up is not called fine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import audit
from tools.audit import Advisory, UnavailableError, is_affected, offline, reported


def advisory(directory: Path, package: str, **values: Any) -> None:
    """One entry of an advisory database."""
    events = [{"introduced": "0"}, {"fixed": "2.0"}]
    entry = {
        "id": "PYSEC-1",
        "affected": [{"ranges": [{"type": "ECOSYSTEM", "events": events}]}],
    }
    path = directory / "vulns" / package / "PYSEC-1.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(entry | values))


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "pins", lambda: {"web": "1.5", "base": "1.0"})


@pytest.mark.usefixtures("pinned")
def test_a_vulnerable_pin_is_found_in_a_checkout(tmp_path: Path) -> None:
    advisory(tmp_path, "web")
    found, source = offline(tmp_path)
    assert found == [Advisory("web", "1.5", "PYSEC-1", "2.0")]
    assert source.startswith("the advisory database at commit")


@pytest.mark.usefixtures("pinned")
def test_what_was_withdrawn_or_is_about_others_is_not(tmp_path: Path) -> None:
    advisory(tmp_path, "web", withdrawn="2024-01-01T00:00:00Z")
    advisory(tmp_path, "other")
    assert offline(tmp_path)[0] == []


def test_a_directory_that_is_no_database_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="has no directory vulns"):
        offline(tmp_path)


@pytest.mark.parametrize(
    ("events", "affected"),
    [
        ([{"introduced": "0"}], True),
        ([{"introduced": "0"}, {"fixed": "1.5"}], False),
        ([{"introduced": "0"}, {"fixed": "1.5.1"}], True),
        ([{"introduced": "1.6"}], False),
        ([{"introduced": "0"}, {"last_affected": "1.5"}], True),
        ([{"introduced": "0"}, {"last_affected": "1.4"}], False),
        ([{"fixed": "1.2"}, {"introduced": "0"}, {"introduced": "1.4"}], True),
        ([{"introduced": "0"}, {"fixed": "1.10"}], True),
    ],
)
def test_ranges_are_read_as_osv_means_them(events: list[dict[str, str]], *, affected: bool) -> None:
    entry = {"ranges": [{"type": "GIT", "events": []}, {"type": "ECOSYSTEM", "events": events}]}
    assert is_affected(entry, "1.5") is affected


def test_a_version_in_the_list_is_affected() -> None:
    assert is_affected({"versions": ["1.5"]}, "1.5")
    assert not is_affected({"versions": ["1.5"]}, "1.50")


def test_a_package_that_was_not_looked_up_is_not_called_fine() -> None:
    """pip-audit itself says "No known vulnerabilities found" then, with exit status 0."""
    vulns = [{"id": "PYSEC-1", "fix_versions": ["2.0", "1.9"]}]
    known = {"name": "Web", "version": "1.5", "vulns": vulns}
    assert list(reported({"dependencies": [known]})) == [
        Advisory("web", "1.5", "PYSEC-1", "2.0, 1.9")
    ]
    skipped = {"name": "base", "skip_reason": "not found on PyPI"}
    with pytest.raises(UnavailableError, match="base: not found on PyPI"):
        list(reported({"dependencies": [known, skipped]}))


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ([], 0, "0 advisories"),
        ([Advisory("web", "1.5", "PYSEC-1", "")], 1, "web 1.5: PYSEC-1, no fix is known"),
        (None, 75, "COULD NOT BE MADE, nothing is known of 2 pins: away"),
    ],
)
@pytest.mark.usefixtures("pinned")
def test_three_ends(
    found: list[Advisory] | None,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def online() -> tuple[list[Advisory], str]:
        if found is None:
            raise UnavailableError("away")
        return found, "somewhere"

    monkeypatch.setattr(audit, "online", online)
    monkeypatch.setattr(sys, "argv", ["audit"])
    assert audit.main() == status
    assert said in capsys.readouterr().out


def test_no_answer_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, stdout="", stderr="a\nconnection refused\n")

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(UnavailableError, match="connection refused"):
        audit.online()
