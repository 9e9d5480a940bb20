"""Traces: what is read, and what is refused with its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.model.errors import InvalidInput
from extender.replay.trace import MOST, read

HEAD = "job_id,submission_time,duration,num_gpu"
ONE = {0: 1.0}


def test_a_job_of_more_gpus_than_a_node_has_is_a_gang_of_whole_nodes() -> None:
    jobs = read([HEAD, "b,20,60,16", "a,10,30,4", "c,20,5,12"], 8, ONE)
    assert [(job.name, job.members, job.gpus) for job in jobs] == [
        ("a", 1, 4),
        ("b", 2, 8),
        ("c", 2, 6),
    ]
    assert jobs[1].gpu_seconds == 60 * 16


def test_columns_may_stand_in_any_order_among_others() -> None:
    assert read(["num_gpu,vc,job_id,duration,submission_time", "8,x,a,60,1"], 8, ONE)[0].gpus == 8


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "line 1 names no column job_id, submission_time, duration, num_gpu"),
        ([HEAD], "there is no job in it"),
        (["job_id,duration", "a,1"], "line 1 names no column submission_time, num_gpu"),
        ([HEAD, "a,0,60"], "line 2: num_gpu is None, not a number"),
        ([HEAD, "a,0,60,1", "b,x,60,1"], "line 3: submission_time is 'x', not a number"),
        ([HEAD, "a,0,60,0"], "line 2: num_gpu is 0, not a whole number above 0"),
        ([HEAD, "a,0,60,1.5"], "line 2: num_gpu is 1.5, not a whole number above 0"),
        ([HEAD, "a,0,-1,1"], "line 2: duration is -1, not between 0"),
        ([HEAD, "a,0,nan,1"], "line 2: duration is nan, not between 0"),
        ([HEAD, f"a,0,{MOST + 1},1"], "not between 0"),
        ([HEAD, 'a,0,60,"1'], "unexpected end of data"),
        ([HEAD, "a" * 200_000 + ",0,60,1"], "after line 1: field larger than field limit"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        read(lines, 8, ONE)
    assert said in str(problem.value)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    try:
        read([HEAD, *lines], 8, ONE)
    except InvalidInput:
        pass


def test_the_name_of_a_job_decides_its_priority() -> None:
    lines = [HEAD, *(f"job-{number},0,1,1" for number in range(4000))]
    mix = {0: 70.0, 100: 25.0, 1000: 5.0}
    first, second = (read(given, 8, mix) for given in (lines, [HEAD, *lines[:0:-1]]))
    assert first == second
    found = [sum(job.priority == level for job in first) / 4000 for level in mix]
    assert found == pytest.approx([0.70, 0.25, 0.05], abs=0.02)
