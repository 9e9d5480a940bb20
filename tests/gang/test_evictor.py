"""Single requests of the evictor, against an API server that is told what to answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from extender.decode.from_api import PREEMPTED
from extender.gang.controller import requests
from extender.gang.controller.requests import (
    FIRST_PAUSE,
    LATE_SECONDS,
    LONGEST_PAUSE,
    EvictionRefused,
    Evictor,
    passing,
    unclear,
)
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.listener import Removal
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, TooManyRequests
from extender.kube.api_errors import Unavailable as NoAnswer
from extender.kube.gate import REQUEST_SECONDS, answered
from extender.model.texts import rfc3339
from extender.settings.settings import EvictionSettings
from tests.gang.evictor_bed import (
    BUSY,
    CONFLICT,
    FORBIDDEN,
    MISSING,
    NOW,
    PATH,
    SILENT,
    THERE,
    VICTIM,
    Api,
    Bed,
)

# -- rehearsal -------------------------------------------------------------------------------


@pytest.mark.parametrize("budgeted", [True, False])
async def test_a_rehearsal_is_a_dry_run_by_the_way_of_the_eviction(*, budgeted: bool) -> None:
    bed = Bed(Api())
    await bed.rehearse(budgeted=budgeted)
    way = ("evict", "a b/p/1") if budgeted else ("delete", PATH)
    assert bed.api.sent == [(*way, "u1", 40, True)]
    assert (bed.pauses, bed.ended) == ([], [])


@pytest.mark.parametrize(("answer", "lost"), [(None, 3600), (MISSING, 0), (FORBIDDEN, 0)])
async def test_work_is_lost_by_an_eviction_that_is_accepted(
    answer: ApiError | None, lost: int
) -> None:
    """A pod that was gone already has not lost it to us."""
    bed = Bed(Api() if answer is None else Api(answer))
    with contextlib.suppress(ApiError):
        await bed.remove(lost=3600)
    assert bed.listener.lost == lost


async def test_who_is_not_wanted_any_more_is_not_asked_for() -> None:
    bed = Bed(Api())
    await bed.evictor.rehearse([VICTIM], frozenset(), lambda victim: False)
    assert bed.api.sent == []


async def test_a_pod_that_is_gone_is_no_refusal() -> None:
    bed = Bed(Api(MISSING))
    await bed.rehearse()
    assert (len(bed.api.sent), bed.ended) == (1, [])


async def test_a_no_that_lasts_is_told_at_once() -> None:
    bed = Bed(Api(FORBIDDEN, pod=THERE))
    with pytest.raises(EvictionRefused, match=r"a b/p/1: no \(403") as refused:
        await bed.rehearse()
    assert (len(bed.api.sent), bed.ended, bed.pauses) == (1, ["refused"], [])
    assert refused.value.readable


async def test_a_no_that_passes_is_tried_so_often_with_twice_the_pause() -> None:
    silent = NoAnswer(0, "Timeout", "no answer")
    bed = Bed(Api(silent, silent, silent, pod=THERE), attempts=3)
    with pytest.raises(EvictionRefused) as refused:
        await bed.rehearse()
    assert len(bed.api.sent) == 3
    assert bed.pauses == [FIRST_PAUSE * 1.5, FIRST_PAUSE * 3]
    assert refused.value.readable
    assert bed.ended == ["refused"]


async def test_an_answer_that_is_clear_is_the_pods_and_not_the_apis() -> None:
    bed = Bed(Api(FORBIDDEN, pod=SILENT))
    with pytest.raises(EvictionRefused) as refused:
        await bed.rehearse()
    assert refused.value.readable


@pytest.mark.parametrize("budgeted", [True, False])
async def test_the_eviction_api_has_longer_to_answer(
    *, budgeted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tries by itself for some ten seconds; another dry run is over soon or not at all."""
    waited: list[float] = []

    async def noted(request: Any, seconds: float) -> None:
        waited.append(seconds)
        await request

    monkeypatch.setattr(requests, "answered", noted)
    await Bed(Api()).rehearse(budgeted=budgeted)
    assert waited == [REQUEST_SECONDS if budgeted else requests.REHEARSAL_SECONDS]


@pytest.mark.parametrize("pod", [SILENT, MISSING])
async def test_without_an_answer_it_matters_whether_the_pod_can_be_read(pod: Any) -> None:
    """Gone or unreadable: it is the API that fails, not the pod's eviction."""
    bed = Bed(Api(SILENT, pod=pod), attempts=1)
    with pytest.raises(EvictionRefused) as refused:
        await bed.rehearse()
    assert not refused.value.readable


async def test_a_no_that_passes_in_time_is_no_refusal() -> None:
    bed = Bed(Api(BUSY, SILENT), attempts=3)
    await bed.rehearse(budgeted=True)
    assert (len(bed.api.sent), bed.ended) == (3, [])


@pytest.mark.parametrize("left", [True, False])
async def test_a_conflict_of_a_pod_that_left_is_its_end(*, left: bool) -> None:
    """Another pod of the name has another uid; a webhook answers with a conflict as well."""
    pod = {"metadata": {"uid": "u2" if left else "u1"}}
    bed = Bed(Api(CONFLICT, pod=pod))
    await bed.rehearse()
    assert len(bed.api.sent) == (1 if left else 2)
    assert bed.ended == []


async def test_a_conflict_of_a_pod_that_cannot_be_read_is_tried_again() -> None:
    bed = Bed(Api(CONFLICT, pod=SILENT), attempts=2)
    await bed.rehearse()
    assert len(bed.api.sent) == 2


# -- the eviction itself ---------------------------------------------------------------------


@pytest.mark.parametrize("budgeted", [True, False])
async def test_an_eviction_is_marked_then_sent_once(*, budgeted: bool) -> None:
    bed = Bed(Api())
    assert await bed.remove(budgeted=budgeted, mark="for g") is Removal.ACCEPTED
    way = ("evict", "a b/p/1") if budgeted else ("delete", PATH)
    assert bed.api.sent == [(*way, "u1", 40, False)]
    assert (bed.asked, bed.ended) == (["now"], ["evicted"])
    (body,) = bed.api.patched
    assert body["metadata"] == {"uid": "u1"}
    (condition,) = body["status"]["conditions"]
    assert condition.pop("lastTransitionTime") == "1970-01-12T13:46:40Z"
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": PREEMPTED,
        "message": "for g",
    }


async def test_what_has_its_mark_is_not_marked_again() -> None:
    bed = Bed(Api())
    await bed.remove()
    assert bed.api.patched == []


async def test_a_mark_that_cannot_be_written_is_told_and_keeps_nothing_from_going() -> None:
    for error, why in ((FORBIDDEN, str(FORBIDDEN)), (TimeoutError(), "no answer")):
        bed = Bed(Api())
        bed.api.unpatched = error
        with capture_logs() as told:
            assert await bed.remove(mark="for g") is Removal.ACCEPTED
        assert [(line["event"], line["error"]) for line in told] == [("condition not written", why)]


async def test_nothing_is_sent_once_it_is_not_allowed() -> None:
    bed = Bed(Api())
    assert await bed.remove(mark="for g", allowed=lambda: False) is None
    assert (bed.api.sent, bed.api.patched, bed.asked, bed.ended) == ([], [], [], [])


async def test_what_is_not_allowed_once_it_is_marked_is_not_asked_for() -> None:
    answers = iter([True, False])
    bed = Bed(Api())
    assert await bed.remove(mark="for g", allowed=lambda: next(answers)) is None
    assert (len(bed.api.patched), bed.api.sent, bed.asked) == (1, [], [])


async def test_the_gate_of_the_client_asks_once_more() -> None:
    answers = iter([True, False])
    bed = Bed(Api())
    assert await bed.remove(allowed=lambda: next(answers)) is None
    assert (bed.asked, bed.ended) == (["now"], [])


async def test_a_pod_that_was_gone_already_is_told_so() -> None:
    for api in (Api(MISSING), Api(CONFLICT, pod=MISSING)):
        bed = Bed(api)
        assert await bed.remove() is Removal.GONE
        assert bed.ended == ["gone"]


async def test_another_error_is_the_callers() -> None:
    for error in (FORBIDDEN, BUSY, SILENT):
        bed = Bed(Api(error))
        with pytest.raises(type(error)):
            await bed.remove()
        assert bed.ended == []
    bed = Bed(Api(CONFLICT, pod=THERE))
    with pytest.raises(Conflict):
        await bed.remove()


async def test_a_pod_that_stays_loses_its_mark() -> None:
    bed = Bed(Api())
    await bed.evictor.unmark(VICTIM)
    (condition,) = bed.api.patched[0]["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("False", "its preemption was called off")


# -- what became of it -----------------------------------------------------------------------


def ends(seconds: float) -> str:
    return rfc3339(NOW + seconds)


@pytest.mark.parametrize(
    ("meta", "leaves_so"),
    [
        ({"uid": "u2"}, True),
        ({"uid": "u1"}, False),
        ({"uid": "u1", "deletionTimestamp": ends(40)}, True),
        ({"uid": "u1", "deletionTimestamp": ends(40 + LATE_SECONDS)}, True),
        ({"uid": "u1", "deletionTimestamp": ends(41 + LATE_SECONDS)}, False),
        ({}, True),
    ],
)
async def test_a_pod_leaves_when_it_ends_as_its_eviction_would_have_it(
    meta: dict[str, str], *, leaves_so: bool
) -> None:
    assert await Bed(Api(pod={"metadata": meta})).evictor.leaving(VICTIM) is leaves_so


async def test_a_pod_that_is_gone_has_left_and_one_that_cannot_be_read_is_not_known() -> None:
    assert await Bed(Api(pod=MISSING)).evictor.leaving(VICTIM) is True
    with pytest.raises(NoAnswer):
        await Bed(Api(pod=SILENT)).evictor.leaving(VICTIM)


# -- waiting ---------------------------------------------------------------------------------


async def test_a_pause_is_as_long_as_the_server_asks_within_bounds() -> None:
    bed = Bed(Api())
    late = TooManyRequests(429, "TooManyRequests", "later", retry_after=1e9)
    for seconds, error in ((0.2, None), (0.2, BUSY), (4.0, BUSY), (0.2, SILENT), (0.2, late)):
        await bed.evictor.pause(seconds, error)
    await bed.evictor.pause(50.0, longest=20.0)
    assert bed.pauses == [
        pytest.approx(1.5 * seconds) for seconds in (0.2, 3.0, 4.0, 0.2, LONGEST_PAUSE, 20.0)
    ]


async def test_pauses_are_not_in_step() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    for _ in range(20):
        await Evictor(cast(KubeApi, Api()), EvictionSettings(), clocks=Clocks(sleep=sleep)).pause(
            1.0
        )
    assert len(set(pauses)) > 1
    assert all(1.0 <= pause < 2.0 for pause in pauses)


async def test_an_answer_is_not_waited_for_for_ever() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(NoAnswer, match=r"no answer within 0 s") as caught:
        await answered(never, 0)
    assert caught.value.status == 0
    assert never.cancelled()


def test_which_errors_pass_and_which_leave_it_open_what_was_done() -> None:
    assert [passing(e) for e in (BUSY, SILENT, FORBIDDEN, CONFLICT)] == [True, True, False, False]
    assert [unclear(e) for e in (BUSY, SILENT, FORBIDDEN, CONFLICT)] == [False, True, False, False]


async def test_an_eviction_refused_for_good_is_counted() -> None:
    bed = Bed(Api())
    bed.evictor.refused()
    assert bed.ended == ["refused"]


async def test_rehearsals_do_not_wait_for_evictions() -> None:
    """What has gone in part must not wait for what may yet begin, nor the other way round."""
    bed = Bed(Api(), concurrency=1)
    async with bed.evictor._gate:
        await bed.rehearse()
    async with bed.evictor._rehearsals:
        assert await bed.remove() is Removal.ACCEPTED
