"""Somebody who asks Plan and Explain beside a full cluster, and what is asked about."""

from __future__ import annotations

from typing import Any

from extender.pb.podgroup.v1 import plan_pb2, types_pb2
from tests.gang.rig import Rig
from tests.grpc_api.site import Callers, Site

MANIFEST = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: new}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  priorityClassName: high
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      priorityClassName: high
      schedulingGroup: {podGroupName: new}
      containers: [{name: c, resources: {requests: {cpu: "3"}}}]
"""


class One:
    """A full cluster of two nodes with a gang low, its extender, and a caller."""

    def __init__(self, rig: Rig, site: Site, callers: Callers) -> None:
        self.rig = rig
        self.site = site
        self.callers = callers

    def plan(self, gang: str, manifest: str = "", **more: Any) -> Any:
        return self.callers.plan.Plan(plan_pb2.PlanRequest(gang=gang, manifest=manifest), **more)

    async def explain_gang(self, gang: str) -> plan_pb2.ExplainResponse:
        return await self.callers.plan.Explain(plan_pb2.ExplainRequest(gang=gang))

    async def explain_pod(self, name: str, uid: str = "") -> plan_pb2.ExplainResponse:
        pod = types_pb2.PodReference(namespace="default", name=name, uid=uid)
        return await self.callers.plan.Explain(plan_pb2.ExplainRequest(pod=pod))
