"""Which gangs the controller loop looks after."""

from __future__ import annotations

from itertools import pairwise

from extender.gang.controller.waiting import PendingGangs
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, Pod
from extender.settings.settings import GroupSettings
from tests.gang.world import pod


def member(gang: str, *, on: str = "") -> Pod:
    return pod("a", labels={"skypilot-cluster-name": gang} if gang else {}, on=on, tried=True)


def test_a_pod_that_is_labelled_anew_is_of_its_new_gang() -> None:
    """The loop went on with the old one, which nobody is of, and never found the new one."""
    pending = PendingGangs(Resolver(GroupSettings()).member_key, ())
    steps = [None, member("one"), member("two"), member(""), member("one"), member("one", on="n0")]
    found = []
    for old, new in pairwise(steps):
        pending.observe(old, new)
        found.append(pending.keys())
    one, two = (GangKey("skypilot", "default", name) for name in ("one", "two"))
    assert found == [[one], [two], [], [one], []]
