"""Jobs of which each takes a topology domain of its own (JobSet's and LWS' exclusive-topology).

The first pod of each is made first and says by its own affinity rules where the Job goes; the
others are made once it has a node, and are bound to that node's domain. Foreseen as pods without
such a rule they would be given room that they cannot use, and somebody would go for a Job that
never runs. So a plan that evicts is one in which each Job has its room in one domain. Which domains
is not searched for but tried: those of the best plan without the rule, and the largest ones. That
is no proof that another choice costs no less, nor that there is none; plan and refusal say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from extender.decode.owners import EXCLUSIVE as OF_JOBSETS
from extender.gang.plan.question import Masks
from extender.groups.jobset import JOB_INDEX, REPLICATED_JOB
from extender.groups.leader_worker_set import EXCLUSIVE as OF_LEADER_WORKER_SETS
from extender.groups.owned import FORESEEN
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Plan, Proof
from extender.model.snapshot import Snapshot

KEYS = (OF_JOBSETS, OF_LEADER_WORKER_SETS)
"""Annotations of pods; the value is the node label whose values are the domains."""
DOMAIN = "podgroup-extender.io/domain"
"""Label that makes the pods of one domain a class of their own; no rule can name it."""
MOST_JOBS = 16
"""More are not tried: each adds two classes to the search."""


class Job(Struct, frozen=True):
    """One Job: its first pod, and those that follow it into its domain."""

    first: Pod
    followers: tuple[Pod, ...]


def topology_key(gang: Gang) -> str:
    """Return the node label that tells the domains apart, "" where Jobs may share one."""
    found = (_key(pod) for pod in gang.members)
    return next((value for value in found if value), "") if gang.followers else ""


def jobs_of(gang: Gang) -> list[Job]:
    """Return the gang's Jobs; none where it cannot be told whose followers the followers are."""
    followers: dict[str, list[Pod]] = {}
    for pod in gang.followers:
        followers.setdefault(pod.labels.get(FORESEEN, ""), []).append(pod)
    made: dict[tuple[str, str], list[Pod]] = {}
    for pod in gang.members:
        if not pod.deleting and pod.uid not in gang.before and _key(pod):
            # A LeaderWorkerSet's leader has no such labels, and there is one.
            labels = pod.labels
            of = labels.get(REPLICATED_JOB, "worker"), labels.get(JOB_INDEX, pod.uid)
            made.setdefault(of, []).append(pod)
    firsts: dict[str, list[Pod]] = {}
    for (part, _), here in made.items():
        if part in followers and len(here) == 1:  # others have followers, who know their domain
            firsts.setdefault(part, []).append(here[0])
    jobs = []
    for part, here in firsts.items():
        rest = followers.pop(part, [])
        each, left = divmod(len(rest), len(here))
        if left:
            return []
        here = sorted(here, key=lambda pod: pod.uid)
        jobs += [Job(first, tuple(rest[i * each : (i + 1) * each])) for i, first in enumerate(here)]
    return [] if followers or len(jobs) > MOST_JOBS else jobs


def choices(jobs: Sequence[Job], best: Plan, key: str, snapshot: Snapshot) -> Iterator[list[str]]:
    """Yield domains to try, one for each Job, no two alike.

    ``best``: a plan in which the followers are anywhere.
    """
    seats = {seat.uid: seat.node for seat in best.seats}
    sizes = Counter(
        domain for node in snapshot.nodes.values() if (domain := node.labels.get(key, ""))
    )
    largest = sorted(sizes, key=lambda domain: (-sizes[domain], domain))
    fixed = [_domain(job.first.node, key, snapshot) for job in jobs]
    seated = [_domain(seats.get(job.first.uid, ""), key, snapshot) for job in jobs]
    tried: list[list[str]] = []
    for wished in (seated, [""] * len(jobs)):
        free = [domain for domain in largest if domain not in (*fixed, *filter(None, wished))]
        chosen = [
            at or wish or (free.pop(0) if free else "")
            for at, wish in zip(fixed, wished, strict=True)
        ]
        if "" not in chosen and len({*chosen}) == len(chosen) and chosen not in tried:
            tried.append(chosen)
            yield chosen


def apart(
    gang: Gang, jobs: Sequence[Job], domains: Sequence[str], key: str, snapshot: Snapshot
) -> tuple[Gang, Masks]:
    """Return the gang, and masks that keep each Job's pods inside its domain."""
    names: dict[str, set[str]] = {}
    for name, node in snapshot.nodes.items():
        names.setdefault(node.labels.get(key, ""), set()).add(name)
    everywhere = frozenset(snapshot.nodes)
    marked: dict[str, Pod] = {}
    masks: dict[str, frozenset[str]] = {}
    for job, domain in zip(jobs, domains, strict=True):
        outside = everywhere - names[domain]
        for pod in (job.first, *job.followers):
            marked[pod.uid] = replace(pod, labels={**pod.labels, DOMAIN: domain})
            masks[pod.uid] = outside
    members = tuple(marked.get(pod.uid, pod) for pod in gang.members)
    followers = tuple(marked.get(pod.uid, pod) for pod in gang.followers)
    return replace(gang, members=members, followers=followers), masks


def at_its_seats(plan: Plan, gang: Gang, snapshot: Snapshot) -> Masks:
    """Return masks that leave each waiting pod the one node that the plan has for it."""
    seats = {seat.uid: seat.node for seat in plan.seats}
    return {
        pod.uid: frozenset(snapshot.nodes.keys() - {seats.get(pod.uid, "")}) for pod in gang.pending
    }


def unproved(plan: Plan) -> Plan:
    """Return the plan without the claim that no other costs less."""
    costs = tuple(replace(cost, bound=0) for cost in plan.costs)
    if all(cost.value == 0 for cost in costs):
        return plan  # nobody goes, and less than nothing there is not
    return replace(plan, costs=costs, proof=Proof.BOUNDED)


def _key(pod: Pod) -> str:
    return next((value for key in KEYS if (value := pod.annotations.get(key, ""))), "")


def _domain(node: str, key: str, snapshot: Snapshot) -> str:
    found = snapshot.nodes.get(node)
    return "" if found is None else found.labels.get(key, "")
