"""The command ``replay``: what it prints, and what it says of bad input."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from extender.app.main import main
from extender.cli.exit_statuses import BAD_INPUT, OK

TRACE = """job_id,submission_time,duration,num_gpu
low,0,7200,16
young,3000,7200,8
urgent,3600,600,8
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["replay", *arguments]) == OK
    return capsys.readouterr().out


def test_figures_for_programs(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [trace, "--nodes", "3", "--policies", "all", "-o", "json"]
    found = json.loads(answered(capsys, *arguments, "--priorities", "0=1"))
    assert (found["jobs"], found["gangs"], found["settings"]["nodes"]) == (3, 1, 3)
    assert found["gpuHours"] == pytest.approx((7200 * 16 + 7200 * 8 + 600 * 8) / 3600)
    assert len(found["policies"]) == 7
    assert {each["podsEvicted"] for each in found["policies"]} == {0}


def test_a_table_for_people(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = answered(capsys, trace, "--nodes", "2")
    first, names, lost, *_ = told.splitlines()
    assert first.startswith("3 jobs (1 of several members, 49 GPU-hours in 0.0 days) on 2 nodes")
    assert names.split() == ["pod-by-pod", "workload-aware-1.38", "default"]
    assert lost.startswith("GPU-hours lost ")
    assert "plans proved to be the least" in told


def test_the_trace_may_come_from_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TRACE.encode())))
    assert json.loads(answered(capsys, "-", "-o", "json"))["trace"] == "standard input"


def test_a_page_loads_nothing(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "<b>.html"
    named = tmp_path / "<i>.csv"
    named.write_text(TRACE)
    answered(capsys, str(named), "--html", str(page))
    text = page.read_text()
    assert "<i>" not in text
    assert "&lt;i&gt;.csv" in text
    assert "default-src 'none'" in text
    assert not re.search(r"<script|https?://|<link|<img", text)
    assert text.count("<polyline") == 2 * 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nowhere.csv"], "/nowhere.csv: cannot be read: No such file or directory"),
        (["/dev/zero"], "/dev/zero: is larger than"),
        (["TRACE", "--policies", "best"], "'best' is none of all, default, "),
        (["TRACE", "--priorities", "high=3"], "'high=3' is no PRIORITY=SHARE"),
        (["TRACE", "--priorities", "1=0"], "shares above 0"),
        (["TRACE", "--priorities", "1=nan"], "shares above 0"),
        (["TRACE", "--priorities", "1=1,1=2"], "each priority once"),
        (["TRACE", "--nodes", "1"], "--nodes 1: the largest job of the trace needs 2 nodes"),
        (["TRACE", "--nodes", "20001"], "--nodes 20001: 20000 at most"),
        (["TRACE", "--gpus", "65"], "--gpus 65: 64 at most"),
        (["TRACE", "--html", "/nowhere/page.html"], "--html /nowhere/page.html: No such file"),
        (["TRACE", "--grace", "-1"], "'-1' is no number of seconds"),
    ],
)
def test_bad_input_is_told(
    arguments: list[str], said: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [trace if each == "TRACE" else each for each in arguments]
    try:
        status = main(["replay", *given])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"\xff\xfe", b"", b"\x00", b"a,b\n1,2\n"])
def test_bytes_that_are_no_trace(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(data)
    assert main(["replay", str(path)]) == BAD_INPUT
    assert str(path) in capsys.readouterr().err
