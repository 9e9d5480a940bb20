"""The whole cache: a reflector per resource, the store, and how far it can be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import structlog

from extender.cache import followed_resources
from extender.cache.clock import Clock
from extender.cache.discovery import CANDIDATES, served
from extender.cache.feed import Subscriber
from extender.cache.pods import MemberKey
from extender.cache.probe import Probe
from extender.cache.pulse import Pulse
from extender.cache.reflector import Reflector
from extender.cache.stats import CacheStats, WatchStats
from extender.cache.store import Store
from extender.cache.tables import Sink
from extender.cache.unfamiliar import Familiarity
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Forbidden
from extender.model.errors import NotReady
from extender.model.group_sources import OPTIONAL
from extender.model.objects import Node, Pod
from extender.model.owner_kinds import JOB, PARTLY_DONE, PRIORITY_KINDS
from extender.model.snapshot import Snapshot
from extender.settings.settings import CacheSettings

log = structlog.get_logger("cache")

VERSION_SECONDS = 1.0
"""How long the server's version is waited for."""
OPTIONAL_TRIES = 10
"""Rounds of discovery, a second apart, for which an optional source is waited for at the start."""
MOST_REFUSED = 32
"""Rounds of discovery, half a minute apart, for which a source that must not be read is not asked
for: each refusal is in the API server's audit log."""
PROBE_SECONDS = 3.0
"""A server that hangs counts as silent after 7.5 s, before staleSeconds are over."""


class Cache:
    """Follows the cluster. One event loop; every reading method is synchronous and cheap.

    ``member_key`` tells the gang of a pod, from the pod alone. ``on_synced`` is called
    once when everything has been read for the first time, a good moment for gc.freeze().
    ``all_jobs``: where Jobs may be read, those that belong to no JobSet count too.
    ``workload_priority``: Kueue's Workloads and their priority classes are read too.
    """

    def __init__(
        self,
        client: KubeApi,
        settings: CacheSettings,
        member_key: MemberKey,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        discovery_seconds: float = 30.0,
        probe_seconds: float = PROBE_SECONDS,
        all_jobs: bool = False,
        workload_priority: bool = False,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock or Clock()
        self._random = (random or Random()).random
        self._discovery_seconds = discovery_seconds
        self._on_synced = on_synced
        self._all_jobs = all_jobs
        self._sources = [
            source
            for source in CANDIDATES
            if source != JOB
            and not (all_jobs and source == PARTLY_DONE)
            and (workload_priority or source not in PRIORITY_KINDS)
        ]
        self._refused: dict[str, tuple[int, int]] = {}
        """Source that must not be read -> the round in which it is asked for again, and after how
        many that is."""
        self._probe = Probe(client, self._clock, probe_seconds)
        self._pulse = Pulse(self._clock)
        self.stats = CacheStats()
        self._familiarity = Familiarity(client, self.stats)
        self.store = Store(member_key, self._clock.wall, self.stats)
        self._tasks: set[asyncio.Task[None]] = set()
        self._optional: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """Source -> where its PodGroups are served, and their reflector."""
        self._needed: list[WatchStats] | None = None
        """Watches without which nothing is decided; None: to be found anew."""
        self._discovered = False
        self._look_again = asyncio.Event()
        self._synced = asyncio.Event()

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to follow; returns at once."""
        store = self.store
        self._follow(followed_resources.nodes(), store.nodes)
        self._follow(followed_resources.pods(), store.pods)
        self._follow(followed_resources.namespaces(), store.namespaces)
        self._follow(followed_resources.budgets(), store.budgets)
        self._follow(followed_resources.priority_classes(), store.priority_classes)
        self._spawn(self._discover(), "discovery")
        self._probe.begin()
        self._spawn(self._probe.run(), "probe")
        self._spawn(self._pulse.run(), "pulse")

    async def stop(self) -> None:
        """Stop following; what is held stays readable."""
        tasks = list(self._tasks)
        self._optional.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_synced(self, timeout: float) -> None:
        """Wait until everything was read once. Raises NotReady that names what is missing."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            raise NotReady(f"caches are not synced: {self._missing()}") from None

    # -- reading ----------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the whole state has been read once; it never becomes False again."""
        return self._synced.is_set()

    @property
    def generation(self) -> int:
        """Grows with every applied change."""
        return self.store.feed.generation

    def snapshot(self) -> Snapshot:
        """Return the present state, immutable; see Store.snapshot."""
        return self.store.snapshot()

    def pod(self, uid: str) -> Pod | None:
        """Return a non-finished pod by uid."""
        return self.store.pods.by_uid.get(uid)

    def pod_named(self, namespace: str, name: str) -> Pod | None:
        """Return the non-finished pod that has this name now."""
        return self.store.pods.named(namespace, name)

    def node(self, name: str) -> Node | None:
        """Return a node by name."""
        return self.store.nodes.rows.get(name)

    def free(self, node: str) -> dict[str, int] | None:
        """Return what is free on a node by resource (may be negative), None when unknown."""
        return self.store.amounts.free(node)

    def short(self, node: str, wants: Iterable[tuple[str, int]]) -> str | None:
        """Return a resource of which the node has less free than wanted; KeyError when unknown."""
        return self.store.amounts.short(node, wants)

    def stale_for(self) -> float:
        """Return for how many seconds changes may have been missed, 0 while all is well.

        That is how long some watch has been down, or how long the server has answered nothing.
        An optional one does not count: what others may break must not stop every gang.
        """
        now = self._clock.monotonic()
        down = (watch.silent_for(now) for watch in self._needed_watches())
        return max(self._probe.silent_for(), max(down, default=0.0))

    def problem(self) -> str:
        """Return, for a person, why the state may be wrong; "" when nothing says so.

        Besides watches that are down these are pods and nodes left out as malformed:
        what they take or give is not known.
        """
        if not self.synced:
            return f"not synced: {self._missing()}"
        now = self._clock.monotonic()
        texts = [
            f"{watch.resource}: watch down for {watch.silent_for(now):.0f} s: {watch.last_error}"
            for watch in self._needed_watches()
            if not watch.up
        ]
        silent = self._probe.silent_for()
        if silent:
            texts.insert(0, f"the API server has not answered for {silent:.0f} s")
        for name in ("pods", "nodes"):
            watch = self.stats.watches.get(name)
            if watch is not None:
                texts += watch.undecodable.values()
        return "; ".join(texts)

    def describe(self) -> Sequence[Mapping[str, Any]]:
        """Return one entry a resource for the debug API; ages in seconds."""
        now = self._clock.monotonic()
        return [watch.described(now) for watch in self.stats.watches.values()]

    def changed(self) -> tuple[str, str]:
        """Return the resourceVersions of the last events of pods and of nodes, "" before one."""
        pods, nodes = (self.stats.watches.get(name) for name in ("pods", "nodes"))
        return pods.changed if pods else "", nodes.changed if nodes else ""

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call ``callback`` with a Change after each one; return how to end that."""
        return self.store.feed.subscribe(callback)

    async def wait_change(self, generation: int, timeout: float) -> int:
        """Return the generation once it exceeds ``generation``, or after ``timeout`` seconds."""
        return await self.store.feed.wait(generation, timeout)

    # -- following --------------------------------------------------------------------------

    def _spawn(self, coroutine: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(coroutine, name=f"cache {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _follow(
        self,
        resource: followed_resources.FollowedResource[Any],
        sink: Sink[Any],
        *,
        optional: bool = False,
        on_left_out: Callable[[WatchStats], None] = lambda stats: None,
    ) -> asyncio.Task[None]:
        stats = WatchStats(resource.name, resource.path, down_since=self._clock.monotonic())
        self.stats.watches[resource.name] = stats
        self._needed = None
        reflector = Reflector(
            self._client,
            resource,
            sink,
            stats,
            self._settings,
            self._clock,
            self._random,
            known_at=self._pulse.known_at,
            on_synced=self._check_synced,
            on_left_out=partial(on_left_out, stats),
            on_missing=self._look_again.set,
            on_refused=self._look_again.set if optional else lambda: None,
        )
        return self._spawn(reflector.run(), resource.name)

    def _check_synced(self) -> None:
        self._tell_group_sources()
        if self._synced.is_set() or not self._discovered:
            return
        late = self.stats.discoveries >= OPTIONAL_TRIES
        watches = self._needed_watches() if late else self.stats.watches.values()
        if all(watch.synced for watch in watches):
            self._synced.set()
            log.info("caches synced", generation=self.generation)
            self._on_synced()

    def _needed_watches(self) -> list[WatchStats]:
        """Those without which nothing is decided. Asked several times a round, by every gang."""
        if self._needed is None:
            optional = {
                followed_resources.groups(source, path).name
                for source, (path, _) in self._optional.items()
                if source in OPTIONAL
            }
            watches = self.stats.watches.values()
            self._needed = [watch for watch in watches if watch.resource not in optional]
        return self._needed

    def _tell_group_sources(self) -> None:
        watches = self.stats.watches
        read = {
            source
            for source, (path, _) in self._optional.items()
            if source in OPTIONAL and watches[followed_resources.groups(source, path).name].synced
        }
        if read != self.store.group_sources:
            self.store.read_groups_of(frozenset(read))

    def _missing(self) -> str:
        texts = [
            f"{watch.resource} ({watch.last_error or 'still reading'})"
            for watch in self.stats.watches.values()
            if not watch.synced
        ]
        if not self._discovered:
            texts.append("discovery of PodGroups")
        return ", ".join(texts)

    async def _discover(self) -> None:
        """Keep the optional reflectors in line with what is served."""
        while True:
            self._look_again.clear()
            learning = self._spawn(self._learn_version(), "version")
            # Side by side: on a slow server one after the other would take long.
            answers = await asyncio.gather(*map(self._discover_one, self._sources))
            await self._discover_jobs()
            await asyncio.wait((learning,), timeout=VERSION_SECONDS)
            self.stats.discoveries += 1
            silent = {
                source
                for source, known in zip(self._sources, answers, strict=True)
                if not known and not self._done_without(source)
            }
            if not silent:
                self._discovered = True
            self._check_synced()
            pause = self._discovery_seconds if self.synced else min(1.0, self._discovery_seconds)
            try:
                async with asyncio.timeout(pause):
                    await self._look_again.wait()
            except TimeoutError:
                continue
            # Asked by a reflector that got a 404; it asks again as long as it does.
            await self._clock.sleep(min(1.0, pause))

    async def _discover_one(self, source: str) -> bool:
        """Return whether it is known, and acted upon, where the source is served."""
        again, _ = self._refused.get(source, (0, 0))
        if self.stats.discoveries < again:
            return True
        try:
            await self._serve(source, await served(self._client, source))
            self._refused.pop(source, None)
        except ApiError as error:
            if isinstance(error, Forbidden) and source in OPTIONAL:
                await self._without(source, error)
                return True
            self.stats.discovery_errors += 1
            log.warning("discovery failed", source=source, error=str(error))
            return False
        except Exception:
            # A mistake of ours must not end the loop, with PodGroups unseen for ever.
            self.stats.discovery_errors += 1
            log.exception("discovery failed", source=source)
            return False
        return True

    async def _without(self, source: str, error: Forbidden) -> None:
        """Go on without a source that must not be read, and ask ever more seldom whether it may."""
        _, pause = self._refused.get(source, (0, 0))
        if not pause:
            log.warning("not allowed to read", source=source, error=str(error))
        pause = min(max(1, 2 * pause), MOST_REFUSED)
        self._refused[source] = (self.stats.discoveries + pause, pause)
        await self._serve(source, None)

    async def _discover_jobs(self) -> None:
        """Follow the Jobs of JobSets where they are of use, or all.

        They are served everywhere: a list that is refused would be in every audit log.
        """
        if self._all_jobs or "jobset" in self._optional:
            await self._discover_one(JOB)
        else:
            await self._serve(JOB, None)

    def _done_without(self, source: str) -> bool:
        """Whether nothing waits for a source any more, although it is not known or not read.

        What is optional may be broken by others (a CRD's webhook, an aggregated API): for a few
        tries it is waited for, since gangs are larger with it than without.
        """
        return source in OPTIONAL and self.stats.discoveries >= OPTIONAL_TRIES

    async def _learn_version(self) -> None:
        try:
            version = await self._client.get("/version")
            self.store.server_version = str(version.get("gitVersion", ""))
            await self._familiarity.look(self.store.server_version)
        except ApiError as error:
            # Only a known fault of one version hangs on it: not worth waiting for.
            log.warning("the server's version is unknown", error=str(error))

    async def _serve(self, source: str, path: str | None) -> None:
        """Follow ``source``'s PodGroups at ``path``, or drop them when it is None."""
        old, task = self._optional.get(source, (None, None))
        if old == path:
            return
        if task is not None:
            del self._optional[source]
            self._needed = None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if path is not None:
            log.info("group objects are served", source=source, path=path)
            resource = followed_resources.groups(source, path, all_jobs=self._all_jobs)
            table = self.store.groups[source]
            leave_out = partial(self.store.leave_out, source)
            self._optional[source] = (
                path,
                self._follow(
                    resource,
                    table,
                    optional=source in OPTIONAL,
                    on_left_out=lambda stats: leave_out(stats.left_out_by_name()),
                ),
            )
            self._needed = None
        elif old is not None:
            log.info("group objects are no longer served", source=source)
            del self.stats.watches[followed_resources.groups(source, old).name]
            self._needed = None
            self._tell_group_sources()
            self.store.groups[source].clear()
            self.store.leave_out(source, {})
