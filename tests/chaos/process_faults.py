"""Processes that are killed, stopped and restarted: the extender's and the control plane's."""

from __future__ import annotations

import random
import signal

from tests.chaos.injecting import Act, Injection, Kinds
from tests.chaos.node_faults import NodeFaults
from tests.chaos.pod_faults import PodFaults


class ProcessFaults:
    """``pods`` and ``nodes``: what may happen while the extender is away."""

    def __init__(self, injection: Injection, pods: PodFaults, nodes: NodeFaults) -> None:
        self._injection = injection
        self._pods = pods
        self._nodes = nodes

    def kinds(self) -> Kinds:
        """Return what is drawn from."""
        return {
            "extender kill -9": (3, self._kill_extender),
            "extender kill -9 in a plan": (5, self._kill_in_a_plan),
            "extender SIGTERM": (2, self._end_extender),
            "extender SIGSTOP": (2, self._stop_extender),
            "scheduler kill -9": (2, self._kill_scheduler),
            "scheduler SIGSTOP": (1, self._stop_server("kube-scheduler", "scheduler SIGSTOP")),
            "apiserver kill -9": (1, self._kill_server("kube-apiserver", "apiserver kill -9")),
            "apiserver SIGSTOP": (2, self._stop_server("kube-apiserver", "apiserver SIGSTOP")),
            "etcd kill -9": (1, self._kill_server("etcd", "etcd kill -9")),
            "etcd SIGSTOP": (1, self._stop_server("etcd", "etcd SIGSTOP")),
            "kubelets SIGSTOP": (1, self._stop_server("kwok", "kubelets SIGSTOP")),
        }

    async def _kill_extender(self, rng: random.Random) -> None:
        away = rng.choice((0.0, 0.0, rng.uniform(0.5, 6.0)))
        detail = f"extender killed, started again after {away:.1f} s"
        async with self._injection.fault("extender kill -9", detail, blinds=True):
            await self._injection.bed.in_thread(lambda: self._injection.bed.extender.end(0))
            await self._injection.pause(away)
            await self._injection.start_extender()

    async def _kill_in_a_plan(self, rng: random.Random) -> None:
        """Kill when the API server has done a certain request, before its answer is told.

        Half of the time something the plan counts on goes away before the next start.
        """
        kind, count = self._injection.moment(rng)
        away = rng.choice((0.0, rng.uniform(0.5, 5.0)))
        meanwhile = rng.choice((None, None, None, "member", "node", "victim"))

        def kill() -> None:
            self._injection.bed.extender.meant_to_run = False
            self._injection.bed.extender.signal(signal.SIGKILL)

        if not await self._injection.at(kind, count, kill):
            return
        detail = f"extender killed after {kind} number {count}, started again after {away:.1f} s"
        async with self._injection.fault("extender kill -9 in a plan", detail, blinds=True):
            await self._injection.bed.in_thread(lambda: self._injection.bed.extender.end(0))
            await self._injection.pause(away)
            if meanwhile == "member":
                await self._pods.delete_waiting(rng)
            elif meanwhile == "victim":
                await self._pods.delete_victim(rng)
            elif meanwhile == "node":
                self._injection.start_beside(self._nodes.cordon(rng))
                await self._injection.pause(0.5)
            await self._injection.start_extender()

    async def _end_extender(self, rng: random.Random) -> None:
        async with self._injection.fault("extender SIGTERM", "extender restarted", blinds=True):
            await self._injection.bed.in_thread(lambda: self._injection.bed.extender.end(15))
            await self._injection.start_extender()

    async def _stop_extender(self, rng: random.Random) -> None:
        seconds = rng.uniform(0.5, 8.0)
        async with self._injection.fault("extender SIGSTOP", f"for {seconds:.1f} s", blinds=True):
            self._injection.bed.extender.signal(signal.SIGSTOP)
            await self._injection.pause(seconds)
            self._injection.bed.extender.signal(signal.SIGCONT)

    async def _kill_scheduler(self, rng: random.Random) -> None:
        plane = self._injection.bed.plane
        async with self._injection.fault(
            "scheduler kill -9", "and restarted", touches_scheduler=True
        ):
            process = plane.processes["kube-scheduler"]
            await self._injection.bed.in_thread(lambda: process.stop(grace=0))
            await self._injection.pause(rng.uniform(0.0, 3.0))
            await self._injection.bed.in_thread(plane.restart_scheduler)

    def _kill_server(self, server: str, kind: str) -> Act:
        async def act(rng: random.Random) -> None:
            away = rng.uniform(0.0, 4.0)
            detail = f"{server} killed, started again after {away:.1f} s"
            async with self._injection.fault(kind, detail, blinds=True, touches_scheduler=True):
                process = self._injection.bed.plane.processes[server]
                await self._injection.bed.in_thread(lambda: process.stop(grace=0))
                await self._injection.pause(away)
                await self._injection.bed.in_thread(
                    lambda: self._injection.bed.plane.restart(server)
                )

        return act

    def _stop_server(self, server: str, kind: str) -> Act:
        async def act(rng: random.Random) -> None:
            seconds = rng.uniform(0.5, 7.0)
            serves = server in ("kube-apiserver", "etcd")
            async with self._injection.fault(
                kind, f"{server} for {seconds:.1f} s", blinds=serves, touches_scheduler=serves
            ):
                process = self._injection.bed.plane.processes[server]
                process.signal(signal.SIGSTOP)
                try:
                    await self._injection.pause(seconds)
                finally:
                    process.signal(signal.SIGCONT)

        return act
