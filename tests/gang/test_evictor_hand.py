"""A pod of an untouched unit goes only if it is we who take it: requests of the evictor."""

from __future__ import annotations

from typing import Any

import pytest

from extender.gang.controller import evictor
from extender.gang.controller.evictor import Removal
from extender.kube.api_errors import Conflict
from extender.kube.api_errors import Unavailable as NoAnswer
from extender.model.texts import rfc3339
from tests.gang.evictor_bed import CONFLICT, MISSING, NOW, SILENT, THERE, Api, Bed


def seen(version: str, **more: str) -> dict[str, Any]:
    return {"metadata": {"uid": "u1", "resourceVersion": version, **more}}


@pytest.mark.parametrize("mark", ["for g", ""])
async def test_who_is_of_an_untouched_unit_goes_only_as_it_was_last_seen(mark: str) -> None:
    """The answer to the mark shows it; without a mark it is read."""
    bed = Bed(Api(pod=THERE))
    assert await bed.remove(mark=mark, untouched=True) is Removal.ACCEPTED
    assert (bed.api.versions, bed.api.reads) == (["7"], 0 if mark else 1)


async def test_who_is_of_a_touched_unit_goes_whatever_it_has_become() -> None:
    bed = Bed(Api(pod=THERE))
    await bed.remove(mark="for g")
    assert (bed.api.versions, bed.api.reads) == ([None], 0)


@pytest.mark.parametrize("budgeted", [True, False])
@pytest.mark.parametrize("mark", ["for g", ""])
async def test_who_terminates_already_is_not_asked_for(mark: str, *, budgeted: bool) -> None:
    bed = Bed(Api(pod=seen("8", deletionTimestamp=rfc3339(NOW + 40))))
    assert await bed.remove(mark=mark, budgeted=budgeted, untouched=True) is Removal.GONE
    assert (bed.api.sent, bed.asked, bed.ended) == ([], [], ["gone"])


async def test_who_was_given_more_time_than_a_victim_gets_is_asked_for_as_it_is() -> None:
    bed = Bed(Api(pod=seen("8", deletionTimestamp=rfc3339(NOW + 4000))))
    assert await bed.remove(mark="for g", untouched=True) is Removal.ACCEPTED
    assert bed.api.versions == ["8"]


async def test_who_was_deleted_since_it_was_seen_has_not_gone_by_our_hand() -> None:
    class Deleted(Api):
        async def delete(self, *args: Any, **named: Any) -> None:
            self.pod = seen("8", deletionTimestamp=rfc3339(NOW + 40))
            await super().delete(*args, **named)

    bed = Bed(Deleted(CONFLICT, pod=THERE))
    assert await bed.remove(mark="for g", untouched=True) is Removal.GONE
    assert (bed.api.versions, bed.ended) == (["7"], ["gone"])


class Changing(Api):
    """Somebody writes the pod whenever it is asked for."""

    async def delete(self, *args: Any, **named: Any) -> None:
        self.pod = seen(str(int(named["version"]) + 1))
        await super().delete(*args, **named)


async def test_a_pod_that_has_changed_is_asked_for_again_at_once() -> None:
    bed = Bed(Changing(CONFLICT, CONFLICT, pod=THERE))
    assert await bed.remove(mark="for g", untouched=True) is Removal.ACCEPTED
    assert (bed.api.versions, bed.ended, bed.pauses) == (["7", "8", "9"], ["evicted"], [])


async def test_a_pod_that_changes_all_the_time_is_the_callers() -> None:
    bed = Bed(Changing(*[CONFLICT] * 9, pod=THERE))
    with pytest.raises(Conflict):
        await bed.remove(mark="for g", untouched=True)
    assert len(bed.api.sent) == evictor.LOOKS


async def test_a_conflict_about_something_else_is_the_callers() -> None:
    """A webhook's: the pod is the very one that was asked for."""
    bed = Bed(Api(CONFLICT, pod=THERE))
    with pytest.raises(Conflict):
        await bed.remove(mark="for g", untouched=True)
    assert len(bed.api.sent) == 1


async def test_a_conflict_of_a_pod_that_cannot_be_read_is_the_callers() -> None:
    """Whether it has changed, or has gone, is not known: asking again at once is no help."""
    bed = Bed(Api(CONFLICT, pod=SILENT))
    with pytest.raises(Conflict):
        await bed.remove(mark="for g", untouched=True)
    assert (len(bed.api.sent), bed.api.versions, bed.ended) == (1, ["7"], [])


async def test_the_eviction_api_is_given_no_version() -> None:
    """It would use up a budget before it finds that the pod has changed."""
    bed = Bed(Api(CONFLICT, pod=seen("8")))
    with pytest.raises(Conflict):
        await bed.remove(mark="for g", budgeted=True, untouched=True)
    assert len(bed.api.sent) == 1


async def test_a_pod_that_cannot_be_read_is_not_asked_for() -> None:
    bed = Bed(Api(pod=SILENT))
    with pytest.raises(NoAnswer):
        await bed.remove(untouched=True)
    assert (bed.api.sent, bed.asked) == ([], [])
    bed = Bed(Api(pod=MISSING))
    assert await bed.remove(untouched=True) is Removal.GONE
    assert (bed.api.sent, bed.asked) == ([], [])


async def test_what_is_not_wanted_any_more_once_it_is_read_is_not_asked_for() -> None:
    answers = iter([True, False])
    bed = Bed(Api(pod=THERE))
    assert await bed.remove(allowed=lambda: next(answers), untouched=True) is None
    assert (bed.api.reads, bed.api.sent, bed.asked) == (1, [], [])
