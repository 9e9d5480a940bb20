"""Plan records in the API: written before anything is evicted, deleted when nothing is owed.

Rules
- A plan has objects of its own, named after gang and plan id: the end of one plan can never
  touch the record of the next.
- The first part is written last and deleted first: it is the record, further parts without it
  are leftovers.
- An unclear answer (no answer, 5xx) is read back before anything else is done.
- A write that replaces a record carries its resourceVersion. Who finds a younger epoch there
  has lost the lease and changes nothing (``Superseded``).
- A record that could not be deleted is deleted later, again and again (``sweep``): a plan that
  was reported as ended must not come back to life.
- What cannot be read, or is not surely ours (extender.gang.runtime.signature), is kept aside: told,
  never acted on, never deleted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any
from urllib.parse import quote

import structlog
from msgspec import Struct
from msgspec.structs import replace

from extender.gang.core.record import Others, Record, pack, unpack
from extender.gang.core.reservations import Preemption
from extender.gang.leader_election.lease import Leadership
from extender.gang.runtime.background import Background
from extender.gang.runtime.signature import Signer, digest_of
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, NotFound, Unavailable
from extender.kube.gate import answered
from extender.model.errors import ExtenderError, InvalidInput
from extender.model.plan import Victim
from extender.model.texts import counted

log = structlog.get_logger("gang")

READ_BACKS = 3
READ_BACK_PAUSE = 0.1
WRITE_SECONDS = 3.0
"""How long a new record's write may take before it is read back: a gang waits for it."""
PAGE = 50
MOST_ASIDE = 1000
"""Records kept aside that are told one by one."""


class Superseded(ExtenderError):  # noqa: N818 - what has happened, not a fault of this call
    """A replica with a younger lease has taken the record over."""


class Loaded(Struct, frozen=True):
    """What the API holds."""

    records: list[Record]
    """Readable ones, youngest first."""
    unreadable: list[str]
    """Names of ConfigMaps that cannot be read or are not surely ours, kept aside."""
    created: dict[str, float] = {}
    """Plan id -> when its record was made, in whole seconds of the API server's clock."""


class RejectedRecord(Struct, frozen=True):
    """A ConfigMap that looks like a plan record and is not taken for one."""

    name: str
    uid: str
    why: str


class Records:
    """Reads and writes plan records in one namespace. One writer a record at a time."""

    def __init__(
        self,
        client: KubeApi,
        namespace: str,
        signer: Signer | None = None,
    ) -> None:
        self._client = client
        self.signer = signer or Signer()
        self._untold: list[RejectedRecord] = []
        """Kept aside since ``take_untold`` was asked last."""
        self.aside: dict[str, RejectedRecord] = {}
        """Name -> a record that is kept aside, as long as it is there."""
        self._digests: dict[str, bytes] = {}
        """Record name -> digest of its parts, as written or read."""
        self._base = f"/api/v1/namespaces/{quote(namespace)}/configmaps"
        self.namespace = namespace
        self._parts: dict[str, int] = {}
        """Record name -> how many objects it has, as written or read."""
        self._versions: dict[str, str] = {}
        """Record name -> resourceVersion of its first part, as loaded last."""
        self._doomed: set[str] = set()
        """Names of records that are to go and may still be there."""

    async def create(self, record: Record) -> None:
        """Write a new record. Raises ApiError when it is not surely there.

        When that is unclear to the end, the record counts as doomed: ``sweep`` deletes it.
        """
        documents = self._documents(record)
        self._parts[record.name] = len(documents)
        try:
            for document in reversed(documents):
                await self._create(document)
        except BaseException:
            self._doomed.add(record.name)
            raise

    async def _create(self, document: dict[str, Any]) -> None:
        name = document["metadata"]["name"]
        for attempt in range(READ_BACKS + 1):
            try:
                await answered(self._client.create(self._base, document), WRITE_SECONDS)
                return
            except (Conflict, Unavailable):
                # A conflict: the name, which holds the plan's id, is ours from a try before; or a
                # quota or a webhook was in the way, and nothing is written.
                if await self._there(name):
                    return
                if attempt == READ_BACKS:
                    raise
                await asyncio.sleep(READ_BACK_PAUSE * 2**attempt)

    async def _there(self, name: str) -> bool:
        try:
            await answered(self._client.get(f"{self._base}/{name}"), WRITE_SECONDS)
        except ApiError:
            return False
        return True

    async def update(self, record: Record) -> None:
        """Replace a record by a later, smaller form of it. Raises ApiError, Superseded.

        A form of several parts is not written: the change would not be atomic. The earlier
        form stays then, which a later life compares with the cluster anyway: that takes a unit
        of some nine thousand pods. A record that is gone is written anew.
        """
        documents = self._documents(record)
        if len(documents) == 1:
            await self._replace(documents[0], record.epoch)

    async def _replace(self, document: dict[str, Any], epoch: int) -> None:
        path = f"{self._base}/{document['metadata']['name']}"
        for attempt in range(READ_BACKS + 1):
            try:
                there = await self._client.get(path)
                if epoch_of(there) > epoch:
                    raise Superseded(f"{path} was taken over by a replica with a younger lease")
                meta = {
                    **document["metadata"],
                    "resourceVersion": version_of(there),
                }
                await self._client.replace(path, {**document, "metadata": meta})
                return
            except NotFound:
                await self._create(document)
                return
            except (Conflict, Unavailable):
                if attempt == READ_BACKS:
                    raise

    async def claim(self, record: Record, epoch: int) -> Record:
        """Put a loaded record under our epoch; an earlier holder's writes to it fail from then on.

        Returns the record as ours. Raises ApiError; Conflict when it was changed since.
        """
        path = f"{self._base}/{record.name}"
        there = await self._client.get(path)
        meta = dict(there.get("metadata") or {})
        annotations = {**(meta.get("annotations") or {}), EPOCH_ANNOTATION: str(epoch)}
        if self.signer.signs:
            digest = self._digests[record.name]
            annotations[SIGNATURE_ANNOTATION] = self.signer.sign(record.name, epoch, digest)
        meta["annotations"] = annotations
        meta["resourceVersion"] = self._versions[record.name]
        await self._client.replace(path, {**there, "metadata": meta})
        return replace(record, epoch=epoch)

    async def drop(self, record: Record) -> None:
        """Delete a record; one that is gone already is fine. Raises ApiError, Superseded."""
        self._doomed.add(record.name)
        await self._drop(record.name, record.epoch)

    async def _drop(self, name: str, epoch: int) -> None:
        path = f"{self._base}/{name}"
        parts = self._parts.get(name, 1)
        try:
            there = await self._client.get(path)
            parts = max(parts, part_count(there))
            if epoch_of(there) > epoch:
                self._doomed.discard(name)
                raise Superseded(f"{path} was taken over by a replica with a younger lease")
            await self._client.delete(path, version=version_of(there) or None)
        except NotFound:
            pass
        for part in range(1, parts):
            await self._delete(f"{path}-{part}")
        self._doomed.discard(name)
        self._parts.pop(name, None)
        self._digests.pop(name, None)

    async def _delete(self, path: str) -> None:
        try:
            await self._client.delete(path)
        except NotFound:
            return

    async def sweep(self, live: Callable[[], AbstractSet[str]], epoch: int) -> int:
        """Delete records of plans that are over: doomed ones, and any that nobody here knows.

        ``live`` returns the names of records that are wanted, asked right before each deletion:
        a plan may be recorded while others are read. Of what else there is, those of a younger
        epoch are not ours to touch: the youngest found is returned, at least ``epoch``. Raises
        ApiError.
        """
        youngest = epoch
        for name in sorted(self._doomed):
            if name not in live():
                await self._sweep_one(name, epoch)
        items = await self._list(LABEL)
        parts = await self._list(PART_LABEL)
        found = {name_of(item) for item in items}
        self.aside = {name: aside for name, aside in self.aside.items() if name in found}
        for item in items:
            name = name_of(item)
            if name in live() or name in self.aside:
                continue
            if epoch_of(item) > epoch:
                if not self._read(item, further_parts(name, parts))[1]:
                    youngest = max(youngest, epoch_of(item))
                continue
            if not readable(item):
                self._keep_aside(item, "it holds no plan")
                continue
            if self.signer.signs and name not in self._digests:
                why = self._read(item, further_parts(name, parts))[1]
                if why:
                    self._keep_aside(item, why)
                    continue
            log.warning("a plan record without a plan is deleted", config_map=name)
            await self._sweep_one(name, epoch)
        for item in parts:
            owner = owner_of(item)
            if owner not in live() and owner not in self.aside and epoch_of(item) <= epoch:
                await self._delete(f"{self._base}/{name_of(item)}")
        return youngest

    async def _sweep_one(self, name: str, epoch: int) -> None:
        try:
            await self._drop(name, epoch)
        except (Conflict, Superseded):
            return  # somebody else has it in hand

    async def load(self) -> Loaded:
        """Return every record there is. Raises ApiError."""
        parts = await self._list(PART_LABEL)
        items = await self._list(LABEL)
        records: list[Record] = []
        created: dict[str, float] = {}
        for item in items:
            name = name_of(item)
            further = further_parts(name, parts)
            if part_count(item) > 1 and not further:
                # The first part is written last and deleted first: it was asked for in vain, and
                # came to be written when the plan was over.
                log.warning("a plan record that came too late is deleted", config_map=name)
                self._doomed.add(name)
                continue
            record, why = self._read(item, further)
            if record is None or why:
                self._keep_aside(item, why)
                continue
            self._parts[name] = part_count(item)
            records.append(replace(record, epoch=epoch_of(item)))
            created[record.id] = created_at(item)
        self._versions = {name_of(item): version_of(item) for item in items}
        records.sort(key=lambda record: (-record.epoch, -record.made, record.id))
        aside = [name_of(item) for item in items if name_of(item) in self.aside]
        return Loaded(records, aside, created)

    def _read(self, item: dict[str, Any], parts: dict[int, bytes]) -> tuple[Record | None, str]:
        """Return the record of a first part, and why it must not be used ("": it may be)."""
        name, count = name_of(item), part_count(item)
        found = {**parts, 0: data_of(item)}
        try:
            if found.keys() < set(range(count)):
                part = counted(count - len(found), "part", "of the record is", "of the record are")
                raise InvalidInput(f"{part} missing")
            whole = [found[number] for number in range(count)]
            digest = digest_of(whole)
            why = self.signer.problem(name, epoch_of(item), digest, signature_of(item))
            if why:
                return None, why
            record = unpack(whole)
            if record.name != name:
                raise InvalidInput(f"the record belongs to {record.name}")
        except (InvalidInput, KeyError) as error:
            return None, str(error)
        self._digests[name] = digest
        return record, ""

    def keep_aside(self, record: Record, why: str) -> None:
        """Leave a record that was read alone from now on: it asks for what it must not."""
        self._keep_aside({"metadata": {"name": record.name}}, why)

    def _keep_aside(self, item: dict[str, Any], why: str) -> None:
        name = name_of(item)
        if name in self.aside or len(self.aside) >= MOST_ASIDE:
            return
        aside = RejectedRecord(name, str(item.get("metadata", {}).get("uid", "")), why)
        self.aside[name] = aside
        log.error("a plan record is kept aside: nothing is done with it", config_map=name, why=why)
        self._untold.append(aside)

    def take_untold(self) -> list[RejectedRecord]:
        """Return the records that are kept aside since this was asked last."""
        taken, self._untold = self._untold, []
        return taken

    def _documents(self, record: Record) -> list[dict[str, Any]]:
        documents = documents_of(record, self.signer)
        if self.signer.signs:
            self._digests[record.name] = digest_of(data_of(each) for each in documents)
        return documents

    async def _list(self, label: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        following = ""
        while True:
            params: dict[str, str | int] = {"labelSelector": label, "limit": PAGE}
            if following:
                params["continue"] = following
            answer = await self._client.get(self._base, params=params)
            items += answer.get("items") or []
            following = str(answer.get("metadata", {}).get("continue") or "")
            if not following:
                return items


# -- a record as ConfigMaps: how its parts are made, and what can be read of one ------------------

LABEL = "podgroup-extender.io/plan"
PART_LABEL = "podgroup-extender.io/plan-part"
GANG_ANNOTATION = "podgroup-extender.io/gang"
EPOCH_ANNOTATION = "podgroup-extender.io/epoch"
PARTS_ANNOTATION = "podgroup-extender.io/parts"
SIGNATURE_ANNOTATION = "podgroup-extender.io/signature"


def documents_of(record: Record, signer: Signer | None = None) -> list[dict[str, Any]]:
    """Return the ConfigMaps that hold a record, the first part first."""
    parts = pack(record)
    signature = "" if signer is None else signer.sign(record.name, record.epoch, digest_of(parts))
    documents = []
    for number, data in enumerate(parts):
        name = record.name if number == 0 else f"{record.name}-{number}"
        state = "under-way" if record.finishing is None else "finishing"
        annotations = {
            GANG_ANNOTATION: str(record.plan.gang),
            EPOCH_ANNOTATION: str(record.epoch),
            PARTS_ANNOTATION: str(len(parts)),
        }
        if signature and number == 0:
            annotations[SIGNATURE_ANNOTATION] = signature
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": name,
                    "labels": {LABEL: state} if number == 0 else {PART_LABEL: record.name},
                    "annotations": annotations,
                },
                "binaryData": {"plan": base64.b64encode(data).decode()},
            }
        )
    return documents


def name_of(item: dict[str, Any]) -> str:
    """Return the object's name."""
    return str(item.get("metadata", {}).get("name", ""))


def version_of(item: dict[str, Any]) -> str:
    """Return the object's resourceVersion."""
    return str(item.get("metadata", {}).get("resourceVersion", ""))


def created_at(item: dict[str, Any]) -> float:
    """When the object was made; 0.0: unknown."""
    stamp = item.get("metadata", {}).get("creationTimestamp")
    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else 0.0
    except ValueError:
        return 0.0


def owner_of(item: dict[str, Any]) -> str:
    """The record that a further part says it belongs to."""
    return str((item.get("metadata", {}).get("labels") or {}).get(PART_LABEL, ""))


def further_parts(name: str, items: list[dict[str, Any]]) -> dict[int, bytes]:
    """Further parts of one record, by number."""
    found: dict[int, bytes] = {}
    for item in items:
        number = name_of(item).rpartition("-")[2]
        if owner_of(item) == name and name_of(item) == f"{name}-{number}" and number.isdecimal():
            found[int(number)] = data_of(item)
    return found


def signature_of(item: dict[str, Any]) -> str:
    """Return what the first part says that it was signed with."""
    return str((item.get("metadata", {}).get("annotations") or {}).get(SIGNATURE_ANNOTATION, ""))


def _annotation(item: dict[str, Any], name: str) -> int:
    text = str((item.get("metadata", {}).get("annotations") or {}).get(name, ""))
    return int(text) if text.isdecimal() and len(text) < 12 else 0


def epoch_of(item: dict[str, Any]) -> int:
    """Return the lease's epoch under which the part was written; 0: unknown."""
    return _annotation(item, EPOCH_ANNOTATION)


def part_count(item: dict[str, Any]) -> int:
    """Return of how many parts the record says to be."""
    return max(1, min(_annotation(item, PARTS_ANNOTATION), 1000))


def data_of(item: dict[str, Any]) -> bytes:
    """Return the part's bytes, b"" where they cannot be read."""
    text = str((item.get("binaryData") or {}).get("plan", ""))
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def readable(item: dict[str, Any]) -> bool:
    """Whether the first part looks like one of ours; what a person put there stays."""
    return bool(data_of(item)) and bool(_annotation(item, PARTS_ANNOTATION))


FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Kept(Struct, kw_only=True):
    """A record that is, or may be, in the API."""

    record: Record
    over: bool = False
    """Its plan has ended."""
    owed: tuple[str, ...] = ()
    """Uids still to be evicted of units that have gone in part."""
    written: tuple[str, ...] | None = None
    """``owed`` as last written; None: the plan is written as under way."""
    busy: bool = False
    """A task is writing it."""


class RecordWriter:
    """Keeps the record of every plan until nothing is owed for it any more.

    The record outlives its plan while units that have gone in part are not finished: whoever
    starts next finishes them. Every write is made by one task a record, in order.
    """

    def __init__(self, records: Records, leadership: Leadership, background: Background) -> None:
        self._records = records
        self._leadership = leadership
        self._spawn = background.spawn
        self._epoch = leadership.epoch
        self._kept: dict[str, Kept] = {}
        """Plan id -> record."""

    async def write(self, preemption: Preemption, made: float, others: Others) -> None:
        """Write the record of a new plan. Raises ApiError when it is not surely there."""
        record = Record(
            id=preemption.id,
            epoch=self._epoch,
            plan=preemption.plan,
            made=made,
            others=others,
            completes=preemption.completes,
            evicted=tuple(sorted(preemption.evicted_before)),
            overdue=preemption.overdue,
        )
        kept = self._kept[preemption.id] = Kept(record=record, busy=True, over=preemption.over)
        try:
            await self._records.create(record)
        except ApiError:
            kept.over = True
            raise
        finally:
            kept.busy = False
            self._push(kept)

    async def load(self) -> Loaded:
        """Return the records of a life before, put under our epoch. Raises ApiError.

        To be called while the lease is ours: whatever epoch a record has, it is an older one.
        (Lease objects can be deleted, and their count of transitions then begins anew.)
        """
        loaded = await self._records.load()
        older = [record.epoch for record in loaded.records]
        self._epoch = max(self._leadership.epoch, 1 + max(older, default=-1))
        mine = [await self._records.claim(record, self._epoch) for record in loaded.records]
        return Loaded(mine, loaded.unreadable, loaded.created)

    @property
    def signed(self) -> bool:
        """Whether what is read is surely ours."""
        return self._records.signer.signs

    def keep_aside(self, record: Record, why: str) -> None:
        """Neither act on a record nor delete it, and tell why."""
        self._records.keep_aside(record, why)

    def adopt(self, record: Record) -> None:
        """Look after a record that was loaded."""
        self._kept[record.id] = Kept(record=record, written=record.finishing)

    def keeps(self, plan_id: str) -> bool:
        """Whether the plan's record is there and not about to be deleted."""
        kept = self._kept.get(plan_id)
        return kept is not None and (not kept.over or bool(kept.owed))

    def over(self, plan_id: str, owed: Callable[[str], Iterable[Victim]]) -> None:
        """The plan has ended; ``owed`` returns what of its victims has to be finished."""
        kept = self._kept.get(plan_id)
        if kept is not None:
            kept.over = True
            self.settle(plan_id, owed)

    def settle(self, plan_id: str, owed: Callable[[str], Iterable[Victim]]) -> None:
        """Take note of what an ended plan's units still owe; drop the record when it is nothing.

        Asked for after each eviction: while the plan is under way nothing is counted.
        """
        kept = self._kept.get(plan_id)
        if kept is None or not kept.over:
            return
        kept.owed = tuple(sorted(victim.uid for victim in owed(plan_id)))
        self._push(kept)

    def _push(self, kept: Kept) -> None:
        if kept.over and not kept.busy:
            kept.busy = True
            self._spawn(self._bring_up(kept))

    async def _bring_up(self, kept: Kept) -> None:
        """Make the record say what is owed, or delete it; until that is done."""
        pause = FIRST_PAUSE
        try:
            while self._leadership.acts:
                try:
                    if not kept.owed:
                        await self._records.drop(kept.record)
                        if not kept.owed:
                            self._kept.pop(kept.record.id, None)
                            return
                    elif kept.written is not None:
                        return  # what was owed at first is written; the cluster shows the rest
                    else:
                        owed = kept.owed
                        await self._records.update(replace(kept.record, finishing=owed))
                        kept.written = owed
                except Superseded:
                    self._kept.pop(kept.record.id, None)
                    return
                except ApiError as error:
                    log.warning(
                        "plan record not up to date", config_map=kept.record.name, error=str(error)
                    )
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            kept.busy = False

    async def sweep(self) -> None:
        """Delete records that belong to no plan. Raises ApiError."""

        def live() -> set[str]:
            return {kept.record.name for kept in self._kept.values()}

        youngest = await self._records.sweep(live, self._epoch)
        if self._leadership.acts:
            # The lease was ours when they were read, so whatever is younger is of a term before
            # this one, as in load(): the storage was put back to before it was deleted.
            self._epoch = max(self._epoch, youngest)
