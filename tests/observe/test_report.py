"""The weekly report: its numbers, its words byte for byte, and what is kept for it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.app.main import main
from extender.gang.tell.decisions import Decision, ObservedEnd, Outcome, Verb
from extender.model.errors import InvalidInput
from extender.observe.charts import ceiling, chart
from extender.observe.file import ASIDE, FORMAT, LedgerFile, Report, decode_as
from extender.observe.markdown import markdown
from extender.observe.page import page
from extender.observe.sums import DAY, WEEK, Ledger, OurAnswer, Told, Waited, Week, week_of
from extender.observe.weekly import choose, read, weekly

MONDAY = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
NOW = MONDAY + 3 * DAY + 3600
MARKUP = {"script", "img", "a", "iframe", "link", "object", "form", "input", "base"}


def ledger() -> Ledger:
    made = Ledger(weeks=8, gangs=10)
    made.count(MONDAY + 10, gangs=1, evicted_pods=3, evicted_for_gangs=2, lost_for_gangs=7200)
    made.count(
        MONDAY + DAY, broken_gangs=2, broken_for_gangs=1, half_broken_gangs=1, evicted_pods=1
    )
    made.count(NOW - 5, gangs=1, planned=1, would_evict_pods=4, would_break_gangs=1)
    made.count(NOW - 5, would_lose=1800)
    made.count(NOW - 5, in_part_gangs=1, in_part_pod_seconds=7200.0, seats_lost=2)
    made.tell(
        NOW,
        Told(
            gang="pod-group:team/urgent",
            priority=100,
            quorum=4,
            since=NOW - 600,
            until=NOW,
            outcome=Waited.WHOLE,
            answer=OurAnswer.PLAN,
            seats=4,
            would_evict=4,
            would_break=["pod-group:team/low"],
            evicted=2,
            broke=["pod-group:team/low"],
            half_broke=["pod-group:team/low"],
        ),
    )
    return made


def report_of(kept: Ledger, written: float = NOW) -> Report:
    return Report(FORMAT, written, kept.weeks, since=MONDAY - WEEK)


def test_week_adds_up_and_says_what_stands_out() -> None:
    kept = report_of(ledger())
    found = weekly(kept, (), choose(kept, "this"))
    lines = {line.what: (line.scheduler, line.extender) for line in found.lines}
    assert lines["pods evicted for gangs"] == ("2", "4")
    assert lines["pods evicted for others"] == ("2", "")
    assert lines["GPU-hours of work lost with pods evicted for gangs"] == ("2.0", "0.5")
    assert lines["gangs that lost their quorum to gangs"] == ("1", "1")
    assert lines["... and to others"] == ("1", "")
    assert lines["hours that their members ran so"] == ("2.0", "")
    assert found.title == "Week of 2026-11-16, so far"
    assert [series.values[0][:4] for series in found.series] == [
        (2, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 0, 2),
    ]
    text = " ".join(found.findings)
    assert "1 gang lost the quorum to a preemption that left other members" in text
    assert "2 seats of its plans" in text
    assert "more pods for gangs than was done (4, 2)" in text


def test_week_in_which_nothing_was_seen_says_so() -> None:
    kept = report_of(Ledger(8, 10))
    found = weekly(kept, (), choose(kept, "this"))
    assert found.findings == (
        "No gang waited for its quorum, and no pod was evicted by preemption.",
    )
    assert "<svg" in page(found)
    assert markdown(found)


def test_gangs_that_wait_are_told_of_in_the_present_week_only() -> None:
    kept = report_of(ledger(), written=NOW)
    waiting = [
        Told(gang="pod-group:team/waits", since=NOW - 60, answer=OurAnswer.REFUSAL, message="no")
    ]
    assert len(weekly(kept, waiting, choose(kept, "this")).gangs) == 2
    kept.weeks.append(Week(MONDAY - WEEK))
    assert weekly(kept, waiting, choose(kept, "last")).gangs == ()


@pytest.mark.parametrize(
    ("wanted", "wrong"),
    [("never", "none of this, last"), ("2026-01-01", "weeks kept: 2026-11-16"), ("last", "kept")],
)
def test_week_that_is_not_there_is_an_error(wanted: str, wrong: str) -> None:
    kept = report_of(ledger())
    with pytest.raises(InvalidInput, match=wrong):
        choose(kept, wanted)
    assert choose(kept, "2026-11-22").start == MONDAY


class Tags(HTMLParser):
    """Which elements and attributes a page has, and whether all are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


TEXTS = st.text(max_size=60) | st.sampled_from(
    (
        '<script>alert("x")</script>',
        "a|b\n|c",
        "`x`",
        "![x](http://y)",
        "]]>",
        "'\"><img src=x>",
        "\x1b[2J\u202e",
    )
)


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_names_are_shown_and_do_nothing(gang: str, message: str, broke: str) -> None:
    kept = report_of(Ledger(8, 10))
    told = Told(
        gang=gang, since=NOW, answer=OurAnswer.REFUSAL, message=message, evicted=1, broke=[broke]
    )
    found = weekly(kept, [told], choose(kept, "this"))
    tags = Tags()
    tags.feed(page(found))
    assert not tags.tags & MARKUP
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert not tags.attributes & {"src", "href", "xlink:href", "style"}
    rows = [line for line in markdown(found).splitlines() if line.startswith("| ")]
    assert not set("\x1b\x9b\u202e") & set(page(found) + markdown(found))
    assert all("<" not in row.replace("\\<", "") for row in rows)
    assert all(row.replace("\\\\", "").replace("\\|", "").count("|") == 7 for row in rows[-1:])


def test_page_loads_nothing() -> None:
    kept = report_of(ledger())
    text = page(weekly(kept, (), choose(kept, "this")))
    for outside in ("http:", "https:", "url(", "@import", "<script", "<link", "src="):
        assert outside not in text
    assert "default-src 'none'" in text


@settings(deadline=None)
@given(st.floats(0, 1e9))
def test_axis_is_not_below_its_bars(most: float) -> None:
    assert ceiling(most) >= most
    assert ceiling(most) > 0


def test_plot_can_be_read_without_being_seen() -> None:
    kept = report_of(ledger())
    (first, *_) = weekly(kept, (), choose(kept, "this")).series
    assert "schedulers 2, 0, 0, 0, 0, 0, 0; extender would 0, 0, 0, 4" in chart(first)


def test_weeks_begin_on_mondays() -> None:
    assert week_of(MONDAY) == week_of(MONDAY + WEEK - 1) == MONDAY
    assert week_of(MONDAY - 1) == MONDAY - WEEK


def test_command_writes_what_the_suffix_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "observe.json"
    saved.write_bytes(msgspec.json.encode(report_of(ledger())))
    for name, begins in (("r.html", "<!doctype html>"), ("r.md", "# Week of"), ("r.json", "{")):
        out = tmp_path / name
        assert main(["report", "--from", str(saved), "--out", str(out)]) == 0
        assert out.read_text().startswith(begins)
    assert main(["report", "--from", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert "| pods evicted for gangs | 2 | 4 |" in shown
    assert "pod-group:team/urgent | 100 | 10 min | whole | evicted 2 pods; broke" in shown


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no report of observe mode"),
        (b"[]", "is no report of observe mode"),
        (b'{"format": 9, "written": 0, "weeks": []}', "format 9"),
        (b'{"format": 1, "written": 0, "weeks": [{"start": 0, "days": []}]}', "seven days"),
        (b"\xff\xfe", "is no report of observe mode"),
    ],
)
def test_file_that_is_no_report_is_named(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "x.json"
    saved.write_bytes(content)
    assert main(["report", "--from", str(saved)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(saved) in error


@pytest.mark.parametrize("number", [1e300, -1e300, 253_402_300_800, -(10**18), 10**29])
@pytest.mark.parametrize("place", ["written", "since", "start", "told", "counted"])
def test_numbers_that_nothing_can_be(
    place: str, number: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No date, no bar: they were tracebacks, and kept an observer from showing its page."""
    week: dict[str, object] = {"start": MONDAY}
    document: dict[str, object] = {"format": 1, "written": NOW, "weeks": [week]}
    if place == "told":
        document["open"] = [{"gang": "g", "since": number}]
    elif place == "counted":
        # A count may be greater than a moment: up to where its sums are still exact.
        week["days"] = [{"would_evict_pods": int(number) * 10**9}] * 7
    else:
        (week if place == "start" else document)[place] = number
    saved = tmp_path / "x.json"
    saved.write_text(json.dumps(document))
    assert main(["report", "--from", str(saved)]) == 2
    assert "x.json: is no report of observe mode" in capsys.readouterr().err


def test_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--from", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_json_has_the_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "observe.json"
    document = {**msgspec.to_builtins(report_of(ledger())), "open": [{"gang": "g"}]}
    saved.write_text(json.dumps(document))
    assert [gang.gang for gang in read(saved.read_bytes())[1]] == ["g"]
    assert main(["report", "--from", str(saved), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["sums"]["seats_lost"] == 2


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (Told("g"), b'{"gang":"g"}'),
        (Told("g", outcome=Waited.WAITING, answer=OurAnswer.NONE), b'{"gang":"g"}'),
        (Told("g", outcome=Waited.WHOLE), b'{"gang":"g","outcome":"whole"}'),
        (Told("g", outcome=Waited.GONE), b'{"gang":"g","outcome":"gone"}'),
        (Told("g", answer=OurAnswer.PLAN), b'{"gang":"g","answer":"plan"}'),
        (Told("g", answer=OurAnswer.REFUSAL), b'{"gang":"g","answer":"refusal"}'),
    ],
)
def test_what_is_told_of_a_gang_is_kept_as_ever(told: Told, kept: bytes) -> None:
    assert msgspec.json.encode(told) == kept
    assert decode_as(kept, Told) == told


def test_a_file_may_state_what_is_left_out_by_default() -> None:
    stated = b'{"gang":"g","outcome":"waiting","answer":""}'
    assert decode_as(stated, Told) == Told("g")


@pytest.mark.parametrize("field", ["outcome", "answer"])
def test_a_word_that_nobody_knows_is_no_report(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"is no report of observe mode.*{field}"):
        decode_as(f'{{"gang":"g","{field}":"odd"}}'.encode(), Told)


def test_codes_of_decisions_are_the_words_as_ever() -> None:
    words = {"whole", "gone", "broken", "half-broken"}
    assert {str(code) for code in ObservedEnd} == words
    for code in ObservedEnd:
        decision = Decision(
            time=1.0,
            gang="g",
            verb=Verb.OBSERVE,
            outcome=Outcome.OBSERVED,
            message="",
            code=code,
        )
        assert f'"code":"{code}"'.encode() in msgspec.json.encode(decision)
        assert type(msgspec.to_builtins(decision)["code"]) is str


def test_no_word_of_what_waited_is_another_one_in_decisions() -> None:
    """Ends of a wait are told as decisions by the same word."""
    assert {str(end) for end in Waited} - {str(code) for code in ObservedEnd} == {"waiting"}


LEDGER_NOW = 1_795_000_000.0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e10, 1e10), st.integers(0, 50)), max_size=40),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_weeks_and_gangs_are_bounded_whatever_the_clock_does(
    events: list[tuple[float, int]], weeks: int, gangs: int
) -> None:
    kept = Ledger(weeks, gangs)
    for moment, evicted in events:
        kept.count(moment, gangs=1)
        kept.tell(moment, Told(gang="g", evicted=evicted))
    assert len(kept.weeks) <= weeks
    assert all(len(week.gangs) <= gangs for week in kept.weeks)
    assert kept.total.gangs == len(events)
    assert [week.start for week in kept.weeks] == sorted({week.start for week in kept.weeks})


def test_those_with_most_to_tell_are_kept() -> None:
    kept = Ledger(1, 2)
    for name, evicted in (("a", 5), ("b", 1), ("c", 9), ("d", 0)):
        kept.tell(LEDGER_NOW, Told(gang=name, evicted=evicted))
    (week,) = kept.weeks
    assert {told.gang for told in week.gangs} == {"a", "c"}
    assert week.left_out == 2


def test_a_day_is_counted_where_it_lies() -> None:
    kept = Ledger(2, 2)
    start = week_of(LEDGER_NOW)
    for at in range(7):
        kept.count(start + at * DAY, gangs=at + 1)
    assert [day.gangs for day in kept.weeks[0].days] == [1, 2, 3, 4, 5, 6, 7]
    assert kept.weeks[0].sums.gangs == 28


async def test_next_life_goes_on_with_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "observe.json")
    first = Ledger(8, 10)
    first.count(LEDGER_NOW, gangs=3)
    first.tell(LEDGER_NOW, Told(gang="g", evicted=1))
    await LedgerFile(path, first, lambda: LEDGER_NOW).write()
    second = Ledger(8, 10)
    file = LedgerFile(path, second, lambda: LEDGER_NOW + WEEK)
    file.read()
    assert second.weeks[0].sums.gangs == 3
    assert second.weeks[0].gangs[0].gang == "g"
    assert file.since == LEDGER_NOW
    assert second.total.gangs == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["observe.json"]


async def test_file_that_cannot_be_read_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "observe.json"
    path.write_text("{half")
    kept = Ledger(8, 10)
    file = LedgerFile(str(path), kept, lambda: LEDGER_NOW)
    file.read()
    assert kept.weeks == []
    assert (tmp_path / f"observe.json{ASIDE}").read_text() == "{half"
    await file.write()
    assert msgspec.json.decode(path.read_bytes())["format"] == 1


def test_file_without_a_directory_is_an_error_at_the_start(tmp_path: Path) -> None:
    file = LedgerFile(str(tmp_path / "none" / "observe.json"), Ledger(8, 10), lambda: LEDGER_NOW)
    with pytest.raises(InvalidInput, match="none is no directory"):
        file.read()


async def test_write_that_does_not_work_is_counted_and_ends_nothing(tmp_path: Path) -> None:
    file = LedgerFile(str(tmp_path / "none" / "observe.json"), Ledger(8, 10), lambda: LEDGER_NOW)
    await file.write()
    assert file.failed == 1


async def test_last_write_is_at_the_stop(tmp_path: Path) -> None:
    path = tmp_path / "observe.json"
    file = LedgerFile(str(path), Ledger(8, 10), lambda: LEDGER_NOW)
    stop = asyncio.Event()
    keeping = asyncio.create_task(file.keep(stop, 3600.0))
    await asyncio.sleep(0)
    assert not path.exists()
    stop.set()
    await asyncio.wait_for(keeping, 60)
    assert path.exists()


async def test_without_a_path_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = LedgerFile("", Ledger(8, 10), lambda: LEDGER_NOW)
    file.read()
    await file.write()
    assert list(tmp_path.iterdir()) == []
