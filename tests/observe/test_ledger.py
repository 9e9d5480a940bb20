"""What is kept is bounded, and outlives a restart where a file says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.model.errors import InvalidInput
from extender.observe.file import ASIDE, LedgerFile
from extender.observe.sums import DAY, WEEK, Ledger, Told, week_of

NOW = 1_795_000_000.0


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
        kept.tell(NOW, Told(gang=name, evicted=evicted))
    (week,) = kept.weeks
    assert {told.gang for told in week.gangs} == {"a", "c"}
    assert week.left_out == 2


def test_a_day_is_counted_where_it_lies() -> None:
    kept = Ledger(2, 2)
    start = week_of(NOW)
    for at in range(7):
        kept.count(start + at * DAY, gangs=at + 1)
    assert [day.gangs for day in kept.weeks[0].days] == [1, 2, 3, 4, 5, 6, 7]
    assert kept.weeks[0].sums.gangs == 28


async def test_next_life_goes_on_with_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "observe.json")
    first = Ledger(8, 10)
    first.count(NOW, gangs=3)
    first.tell(NOW, Told(gang="g", evicted=1))
    await LedgerFile(path, first, lambda: NOW).write()
    second = Ledger(8, 10)
    file = LedgerFile(path, second, lambda: NOW + WEEK)
    file.read()
    assert second.weeks[0].sums.gangs == 3
    assert second.weeks[0].gangs[0].gang == "g"
    assert file.since == NOW
    assert second.total.gangs == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["observe.json"]


async def test_file_that_cannot_be_read_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "observe.json"
    path.write_text("{half")
    kept = Ledger(8, 10)
    file = LedgerFile(str(path), kept, lambda: NOW)
    file.read()
    assert kept.weeks == []
    assert (tmp_path / f"observe.json{ASIDE}").read_text() == "{half"
    await file.write()
    assert msgspec.json.decode(path.read_bytes())["format"] == 1


def test_file_without_a_directory_is_an_error_at_the_start(tmp_path: Path) -> None:
    file = LedgerFile(str(tmp_path / "none" / "observe.json"), Ledger(8, 10), lambda: NOW)
    with pytest.raises(InvalidInput, match="none is no directory"):
        file.read()


async def test_write_that_does_not_work_is_counted_and_ends_nothing(tmp_path: Path) -> None:
    file = LedgerFile(str(tmp_path / "none" / "observe.json"), Ledger(8, 10), lambda: NOW)
    await file.write()
    assert file.failed == 1


async def test_last_write_is_at_the_stop(tmp_path: Path) -> None:
    path = tmp_path / "observe.json"
    file = LedgerFile(str(path), Ledger(8, 10), lambda: NOW)
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
    file = LedgerFile("", Ledger(8, 10), lambda: NOW)
    file.read()
    await file.write()
    assert list(tmp_path.iterdir()) == []
