"""What was read of a gang is read anew when the object that makes its pods changes."""

from __future__ import annotations

from typing import Any

from extender.gang.incremental.gangs import Gangs
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot
from tests.groups import owners, recorded
from tests.groups.owner_gangs import RESOLVER, members, state
from tests.groups.owners import job, jobset, read, replicated


def test_a_kept_gang_is_forgotten_when_its_owner_changes() -> None:
    gangs = Gangs(RESOLVER)
    key = GangKey("jobset", "ns", "g")
    pods = members(3)
    set_ = read("jobset", jobset(replicated("w", each=4)))
    before = state(pods, [set_, read("job", job("g-w-0", 4))])
    gangs.renew(before)
    assert gangs[key].min_count == 4
    after = state(pods, [set_, read("job", job("g-w-0", 4, succeeded=1))], generation=2)
    after = Snapshot(**{**_fields(after), "members": before.members})
    gangs.renew(after)
    assert gangs[key].min_count == 3


def test_the_gangs_of_a_leader_worker_set_are_forgotten_when_it_changes() -> None:
    gangs = Gangs(RESOLVER)
    key = GangKey("leader-worker-set", "ns", "g-0")
    spec = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": owners.template()}}
    source = "leader-worker-set"
    pods = [recorded.pod(source, 0, 4)]
    before = state(pods, [read(source, owners.document(source, "g", spec))])
    gangs.renew(before)
    assert gangs[key].min_count == 4
    later = {**spec, "startupPolicy": "LeaderReady"}
    after = state(pods, [read(source, owners.document(source, "g", later))])
    gangs.renew(Snapshot(**{**_fields(after), "members": before.members}))
    assert gangs[key].min_count == 1


def _fields(snapshot: Snapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
