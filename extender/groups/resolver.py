"""From pods and group objects to gangs. Conflicts are reported, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from extender.groups.composite import unit_key
from extender.groups.dialect import Declaration, Dialect
from extender.groups.done_by_owner import cleaned_up
from extender.groups.ended_members import less_ended, of_this_run
from extender.groups.ending_owners import ending, leaving, less_leaving, owner_names
from extender.groups.formed_before import ran_before
from extender.groups.lost_members import lost_members
from extender.groups.makers import of_one_before
from extender.groups.markers import all_keys, explicit_keys
from extender.groups.owner_beside import with_owner
from extender.groups.patience import patience_of
from extender.groups.registry import DIALECTS, chosen
from extender.groups.topology import topology_of
from extender.groups.workload_priority import workload_priority
from extender.model.gang import UNIT_ALL, UNIT_SINGLE, Gang
from extender.model.group_sources import API_GROUPS
from extender.model.names import MOST_SUBDOMAIN
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted
from extender.settings.settings import GroupSettings

MAX_CONFLICTS = 5
"""Conflicting pods told one by one; a gang may have thousands."""


class Resolver:
    """Which gang a pod belongs to, and what that gang is.

    Explicit dialects beat owner- and launcher-based ones silently. Inside each
    kind the order of GroupSettings.dialects decides. Raises InvalidInput when
    the settings name a dialect that does not exist; nothing else raises: tenants
    write what is read here, and every round resolves all gangs.
    """

    def __init__(self, settings: GroupSettings, dialects: Iterable[Dialect] = DIALECTS) -> None:
        self._settings = settings
        self._dialects = chosen(settings, dialects)
        self._by_name = {dialect.name: dialect for dialect in self._dialects}
        self._keys = tuple(dialect.key for dialect in self._dialects)
        self._explicit_keys = tuple(d.key for d in self._dialects if d.explicit)
        self._explicit_names = tuple(d.name for d in self._dialects if d.explicit)
        self._implied = tuple(d for d in self._dialects if not d.explicit)
        self._marks = all_keys(self._dialects)
        self._explicit_marks = explicit_keys(self._dialects)

    def member_key(self, pod: Pod) -> GangKey | None:
        """Return the pod's gang, None for a pod of no gang; depends on the pod alone.

        A name that no object can have (an owner's is free text) names no gang.

        A pod with a conflict counts as a member of the first gang it names, so
        that the problem shows there and the pod is not taken for a single one.
        """
        marks = self._marks
        named = pod.pod_group or pod.hierarchy is not None
        if not named and marks.isdisjoint(pod.labels) and marks.isdisjoint(pod.annotations):
            return None  # most pods: no dialect has to be asked
        try:
            for key_of in self._keys:
                key = key_of(pod)
                if key is not None and len(key.name) <= MOST_SUBDOMAIN:
                    return key
        except Exception:  # a mistake of ours about this pod
            return next(iter(_named(pod, self._keys)), None)
        return None

    def unit_key(self, pod: Pod) -> GangKey | None:
        """Return what the pod goes with as a victim, None for a pod of no gang."""
        return unit_key(self.member_key(pod), pod)

    def conflict(self, pod: Pod) -> str | None:
        """Return the text of a conflict: explicit dialects that name different groups."""
        marks = self._explicit_marks
        found = sum([marks[key] for key in (*pod.labels, *pod.annotations) if key in marks])
        if found + bool(pod.pod_group or pod.hierarchy is not None) < 2:
            return None  # asked of every member: most have the keys of one dialect
        named = self._explicit(pod)
        if len({(key.namespace, key.name) for key in named}) < 2:
            return None
        return f"pod {pod.key} names different groups: {', '.join(map(str, named))}"

    def resolve(self, key: GangKey, snapshot: Snapshot) -> Gang:
        """Return the gang; a gang that needs repair says so in ``problems``."""
        members = snapshot.members.get(key, ())
        try:
            return self._resolved(key, members, snapshot)
        except Exception as error:  # a mistake of ours about this gang
            return _unclear(key, members, error)

    def _resolved(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Gang:
        dialect = self._by_name.get(key.dialect)
        if dialect is None:
            return Gang(
                key=key,
                members=members,
                min_count=max(1, len(members)),
                problems=(f"dialect {key.dialect!r} is not enabled",),
            )
        before = of_one_before(key, members, snapshot)
        present = tuple(pod for pod in members if pod.uid not in before) if before else members
        said = dialect.declare(key, present, snapshot)
        over = of_this_run(key, present, snapshot)
        gone = cleaned_up(said, over, present, snapshot)
        said, ended = less_ended(said, over, gone, present)
        owner = self._made_by(present, dialect)
        made_by = owner if dialect.explicit else None
        said, asked = with_owner(said, present, owner, snapshot, ended=len(over))
        size_known = said.min_count is not None
        stays = [pod for pod in present if not pod.deleting]
        topology = topology_of(said.topology_key, present)
        patience, patience_notes = patience_of(dialect.name, present, self._settings)
        going = leaving(stays, snapshot)
        count = [pod for pod in stays if pod.uid not in going] if going else stays
        low, high, priority_notes = self._priorities(said, key, members, count or members, snapshot)
        gang = Gang(
            key=key,
            members=members,
            before=before,
            lost=lost_members(present, snapshot),
            # Terminating pods are on their way out and their successors may exist
            # already: counting both would make a quorum nobody can reach.
            min_count=max(1, len(stays) if said.min_count is None else said.min_count),
            size_known=size_known,
            parts=said.parts,
            budget=said.budget,
            unit=said.unit or self._unit_of(dialect, said, made_by, present),
            starts_whole=(
                self._settings.starts_whole.get(dialect.name, dialect.starts_whole)
                if said.starts_whole is None
                else said.starts_whole
            ),
            preemptor_priority=low,
            victim_priority=high,
            preempts=said.preempts and all(pod.preempts for pod in count or members),
            topology_key=topology.required,
            preferred_topology_key=topology.preferred,
            followers=tuple(replace(pod, priority=low) for pod in said.followers),
            whole_from=_whole_from(said, members),
            ended=ended,
            asked=asked,
            owners=tuple(sorted({*gone.asked, *owner_names(present)})),
            patience=patience,
            problems=(
                said.problems
                + topology.problems
                + self._membership_problems(key, members, snapshot)
            ),
            unplanned=ending(key, stays, snapshot) or said.unplanned,
            notes=said.notes
            + gone.notes
            + priority_notes
            + topology.notes
            + patience_notes
            + _told_before(len(before)),
        )
        return less_leaving(gang, going)

    def resolve_all(self, snapshot: Snapshot) -> list[Gang]:
        """Return every gang that has members, by key."""
        return [self.resolve(key, snapshot) for key in sorted(snapshot.members)]

    def _priorities(
        self,
        said: Declaration,
        key: GangKey,
        members: tuple[Pod, ...],
        count: Sequence[Pod],
        snapshot: Snapshot,
    ) -> tuple[int, int, tuple[str, ...]]:
        """As _priorities; Kueue's class counts first where it is to count, and is told else."""
        value, told = workload_priority(
            key, members, snapshot, counts=self._settings.workload_priority
        )
        if value is not None:
            said = replace(said, priority=value)
        low, high, notes = _priorities(said, members, count, snapshot)
        return low, high, told + notes

    def _unit_of(
        self,
        dialect: Dialect,
        said: Declaration,
        made_by: Dialect | None,
        members: Sequence[Pod],
    ) -> str:
        """Return how a gang is disrupted that does not say it.

        As configured; else whole where what made each of its pods goes whole: a training job is
        one job, whatever group its operator makes for it. Else as is usual for the dialect.
        """
        units = self._settings.unit
        usual = units.get(dialect.name, dialect.unit)
        if said.of_one:
            usual = UNIT_SINGLE
        elif dialect.name in units:
            return usual
        if usual == UNIT_ALL or made_by is None:
            return usual
        whole = units.get(made_by.name, made_by.unit) == UNIT_ALL
        together = whole and all(made_by.key(pod) is not None for pod in members)
        return UNIT_ALL if together else usual

    def _made_by(self, members: Sequence[Pod], of: Dialect) -> Dialect | None:
        """Return the dialect of what made the first of the members of a group that names them."""
        if not members or not (of.explicit or of.name in API_GROUPS):
            return None
        others = (each for each in self._implied if each is not of)
        return next((each for each in others if each.key(members[0]) is not None), None)

    def _explicit(self, pod: Pod) -> list[GangKey]:
        return _named(pod, self._explicit_keys)

    def _membership_problems(
        self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot
    ) -> tuple[str, ...]:
        """Return conflicts on members, and members lost to another dialect's gang.

        The second: some pods name this group in two dialects, others in only the
        later one. Two half gangs of one name would come out, so neither acts.
        """
        if not self._by_name[key.dialect].explicit:
            return ()
        problems = [text for pod in members if (text := self.conflict(pod)) is not None]
        if len(problems) > MAX_CONFLICTS:
            more = len(problems) - MAX_CONFLICTS
            problems[MAX_CONFLICTS:] = [
                f"{counted(more, 'more pod', 'names', 'name')} different groups"
            ]
        for name in self._explicit_names:
            twin = GangKey(name, key.namespace, key.name)
            if twin == key or twin not in snapshot.members:
                continue
            pods = members + snapshot.members[twin]
            if any({key, twin} <= set(self._explicit(pod)) for pod in pods):
                first, second = sorted((key, twin))
                problems.append(
                    f"group {key.namespace}/{key.name} is split: "
                    f"some of its pods name it as {first}, others as {second}"
                )
        return tuple(problems)


def _told_before(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    those = counted(count, "pod", "is", "are")
    return (f"{those} left of an owner that was deleted and created again: no part of the quorum",)


def _named(pod: Pod, keys: Iterable[Callable[[Pod], GangKey | None]]) -> list[GangKey]:
    """Return the gangs that a pod names; a dialect that fails on it names none."""
    found: list[GangKey] = []
    for key_of in keys:
        try:
            key = key_of(pod)
        except Exception:
            continue
        if key is not None and len(key.name) <= MOST_SUBDOMAIN:
            found.append(key)
    return found


def _whole_from(said: Declaration, members: tuple[Pod, ...]) -> int | None:
    """As in Gang: what the dialect says, or fewer that ran before the first that waits was made."""
    before = ran_before(members)
    least = [count for count in (said.whole_from, said.min_count, before or None) if count]
    return min(least) if before else said.whole_from


def _unclear(key: GangKey, members: tuple[Pod, ...], error: Exception) -> Gang:
    """Return a gang about which something failed: it is not planned, its pods go as single ones."""
    priorities = [pod.priority for pod in members]
    kind = type(error).__name__
    return Gang(
        key=key,
        members=members,
        min_count=max(1, len(members)),
        preemptor_priority=min(priorities, default=0),
        victim_priority=min(priorities, default=0),
        problems=(f"what it states cannot be understood ({kind}); please report this",),
    )


def _priorities(
    said: Declaration, members: tuple[Pod, ...], count: Sequence[Pod], snapshot: Snapshot
) -> tuple[int, int, tuple[str, ...]]:
    """Return (as preemptor, as victim, notes).

    The group's own number, else its class's, else the lowest of the members': a gang
    can want no more than its least urgent member may take, and one urgent member does
    not make the others so (each that is more urgent stays until somebody is above it).
    As preemptor only those of ``count`` count, which do not leave; as victim all do.
    """
    found = {pod.priority for pod in count}
    notes: list[str] = []
    stated = said.priority
    if stated is None and said.priority_class:
        known = snapshot.priority_classes.get(said.priority_class)
        if known is None:
            notes.append(
                f"PriorityClass {said.priority_class!r} of the group does not exist: "
                "the pods' own priorities count"
            )
        else:
            stated = known.value
    if stated is not None:
        if found - {stated}:
            notes.append(
                f"pods' priorities {_listed(found)} give way to the group's priority {stated}"
            )
        return stated, stated, tuple(notes)
    if len(found) > 1:
        notes.append(
            f"pods differ in priority ({_listed(found)}): "
            f"{min(found)} counts as preemptor, as a victim each pod's own"
        )
    least = min(found, default=0)
    lowest = least if len(count) == len(members) else min(pod.priority for pod in members)
    return least, lowest, tuple(notes)


def _listed(values: set[int]) -> str:
    """Return a few numbers as text; a gang may have thousands of members."""
    shown = sorted(values)[:5]
    more = ", ..." if len(values) > len(shown) else ""
    return ", ".join(map(str, shown)) + more
