"""Fuzzer of observe mode: what tenants make, what schedulers do and ask, and days that pass.

    python -m tests.fuzz.observing --seconds 600 --seed 1

What must hold: every question has kube-scheduler's own answer, nobody goes whom the story did not
take, no question goes unheard, week and page can be made and all of them shows, nothing is logged
as an error, and memory, tasks and descriptors stay bounded.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from extender.kube.api_errors import ApiError
from extender.model.errors import InvalidInput
from extender.model.texts import unseen
from extender.observe.file import LedgerFile
from extender.observe.markdown import markdown
from extender.observe.page import page
from extender.observe.weekly import choose, weekly
from extender.wire.filter_json import decode_filter_args
from extender.wire.preempt_json import decode_preempt_args
from tests.fuzz import playing
from tests.fuzz.bytes_of import documents
from tests.fuzz.hostile import groups, pods, shielded
from tests.fuzz.target import Target
from tests.gang.rig import FAST, PODS, Rig
from tests.observe.bed import Bed

OBSERVING = replace(FAST, mode="observe")
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
MOST_ALIKE = 3
"""Pods of one kind that are made, whatever a story says."""
PASS = (0.0, 1.0, 61.0, 3600.0, 86_400.0, 7 * 86_400.0)


class Observing(Target):
    """An observer, its verbs, and what it tells of the weeks."""

    rig: Bed

    def parts(self, examples: int) -> Sequence[playing.Part]:
        """Stories of a few steps."""
        made = st.one_of(pods(), groups(), shielded()).map(lambda step: ("make", step))
        asked = documents(self.names).map(lambda data: ("ask", data))
        number = st.integers(0, 50)
        step = st.one_of(
            made,
            made,
            asked,
            asked,
            st.sampled_from(PASS).map(lambda seconds: ("pass", seconds)),
            *(st.tuples(st.just(what), number) for what in ("tried", "bound", "gone")),
        )
        return ((st.lists(step, min_size=1, max_size=8), self.tell, examples),)

    def _made(self) -> Rig:
        return Bed(OBSERVING)

    async def _begin(self) -> None:
        self._file = LedgerFile("", self.rig.ledger, lambda: self.rig.observer._clocks.wall())

    def tell(self, story: list[tuple[str, Any]]) -> None:
        """Play a story, and take away what it has made."""
        self.call(self._tell(story))
        self.complain()

    async def _tell(self, story: list[tuple[str, Any]]) -> None:
        for what, given in story:
            try:
                await getattr(self, f"_{what}")(given)
                self.statuses[what] += 1
            except ApiError as error:
                self.statuses[f"{what}: {error.status}"] += 1
            await self.rig.rounds()
        self._reports()
        await self._undone()
        for name in await self.rig.names() - self._filled:
            await self.rig.remove(name)
        self.pods = set(self._filled)
        for each in (await self.rig.client.get(GROUPS))["items"]:
            if each["metadata"]["name"] != "low":
                await self.rig.client.delete(f"{GROUPS}/{each['metadata']['name']}")
        await self.rig.until_names(*self._filled)

    async def _fill(self, rig: Rig) -> None:
        await super()._fill(rig)
        self._filled = frozenset(await rig.names())

    # -- steps ----------------------------------------------------------------------------

    async def _make(self, step: dict[str, Any]) -> None:
        for each in step.get("several", [step]):
            if "group" in each:
                await self.rig.client.create(GROUPS, each["group"])
            for index in range(min(each.get("copies", 0), MOST_ALIKE)):
                document = json.loads(json.dumps(each["pod"]))
                name = f"t{len(self.pods)}"
                metadata = document["metadata"]
                # None that stays for ever: each story begins with the same cluster.
                for key in ("finalizers", "deletionTimestamp", "deletionGracePeriodSeconds", "uid"):
                    metadata.pop(key, None)
                metadata |= {"name": name, "namespace": "default"}
                document["spec"].pop("nodeName", None)
                urgent = document["spec"].pop("priority", 0) > 1
                document["spec"]["priorityClassName"] = "high" if urgent else "low"
                if each["bound"]:
                    document["spec"]["nodeName"] = f"n{index % 2}"
                await self.rig.client.create(PODS, document)
                self.pods.add(name)

    async def _ask(self, data: bytes) -> None:
        with contextlib.suppress(InvalidInput):
            asked = decode_filter_args(data)
            answer = await self.rig.verbs.filter(asked)
            assert (answer.node_names, answer.error) == (asked.node_names, "")
            assert not answer.failed
            assert not answer.failed_and_unresolvable
        with contextlib.suppress(InvalidInput):
            question = decode_preempt_args(data)
            assert (await self.rig.verbs.preempt(question)).candidates == question.candidates

    async def _pass(self, seconds: float) -> None:
        await self.rig.rounds(seconds)

    async def _tried(self, number: int) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"conditions": [condition]}}
        await self.rig.client.patch(f"{PODS}/{self._one(number)}/status", status, "strategic")

    async def _bound(self, number: int) -> None:
        await self.rig.bind(self._one(number), f"n{number % 2}")

    async def _gone(self, number: int) -> None:
        name = self._one(number)
        if name not in self._filled:
            await self.rig.remove(name)
            self.pods.discard(name)

    def _one(self, number: int) -> str:
        return sorted(self.pods)[number % len(self.pods)]

    # -- what must hold -------------------------------------------------------------------

    def _reports(self) -> None:
        kept = self._file.report()
        told = [case.told for case in self.rig.observer.cases]
        if kept.weeks:
            found = weekly(kept, told, choose(kept, "this"))
            for text in (page(found), markdown(found)):
                assert not unseen(text), "a character does not show"

    async def _undone(self) -> None:
        """Nobody went whom the story did not take, and every question was heard."""
        names = await self.rig.names()
        assert names == self.pods, f"evicted: {self.pods - names}, not known: {names - self.pods}"
        assert self.rig.verbs.unheard == 0, "a question was not heard"  # type: ignore[attr-defined]


def main(arguments: list[str]) -> int:
    """Run from the command line; raises what did not hold."""
    return playing.main(arguments, __doc__, Observing, examples=100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
