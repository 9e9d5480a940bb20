"""Elects one replica by a coordination.k8s.io Lease, as client-go's tools/leaderelection does.

Whoever wants the lease waits until the record has not changed for the duration that its holder
wrote, by the waiter's own clock; wall clocks are only written down. The holder acts only within
``renewSeconds`` of the START of its last renewal that was answered with success, so it is still
before anybody else can hold the lease, however long an answer, a pause or a partition lasts, as
long as no two clocks differ in speed by more than ``leaseSeconds / renewSeconds``.

Differences from client-go: the lease is watched besides being polled, so a hand-over takes no
retry period; every term counts in ``leaseTransitions``, also a second one of the same holder, so
that the epoch names a term; a leader gives way to the replica that kube-scheduler asks (see
``note_asked``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from math import inf

import structlog

from extender.gang.leader_election.lease import (
    LeaseStore,
    Object,
    asked_of,
    holder_of,
    seconds_of,
    spec_of,
    transitions_of,
    with_asked,
    with_spec,
)
from extender.gang.runtime.clocks import LEASE_CLOCKS, Clocks
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, NotFound
from extender.settings.settings import JITTER, LeadershipSettings

log = structlog.get_logger("leadership")

RELEASED_SECONDS = 1.0
"""Duration in a lease that was given back (client-go's release)."""
RELEASE_TRIES = 3


class Elector:
    """One candidate. Implements leadership.Leadership; one event loop only.

    A term begins when the lease is got and ends when ``acts`` turns False. Whoever acts calls
    ``gained``, then ``lost``, stops acting, and calls ``ended``: there is no second term before.
    """

    def __init__(
        self,
        api: KubeApi,
        settings: LeadershipSettings,
        namespace: str,
        identity: str,
        *,
        clocks: Clocks = LEASE_CLOCKS,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings
        # Two requests without an answer must leave time for another try before the deadline.
        self._store = LeaseStore(api, namespace, settings.name, settings.renew_seconds / 4)
        self.identity = identity
        self.epoch = 0
        self.terms = 0
        """Terms of this process."""
        self._clocks = clocks
        self._rng = rng or random.Random()
        self._lease: Object = {}
        """As last seen; its resourceVersion is the precondition of the next write."""
        self._seen = -inf
        """When the lease's spec was seen to change, by our clock."""
        self._term = False
        self._until = -inf
        self._hand_over = False
        self._stands_from = -inf
        """Not a candidate before this time."""
        self._last_asked = -inf
        self._request = ("", -inf)
        """The replica that asks for our lease, and when we first saw that."""
        self._requested_at = -inf
        """When we last asked for another's lease."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()

    # -- what others ask ----------------------------------------------------------------

    @property
    def acts(self) -> bool:
        """Whether this process may act at this very moment."""
        return self._term and self._now() < self._until

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen, "" for nobody."""
        return holder_of(self._lease)

    @property
    def transitions(self) -> int:
        """How often the lease has changed hands, as last seen."""
        return transitions_of(self._lease)

    def describe(self) -> str:
        """Return, for a person, who leads."""
        if self.acts:
            return "this replica leads"
        others = self.holder
        if others and others != self.identity:
            return f"another replica leads: {others}"
        return f"no replica is known to lead (lease {self._store.named})"

    def note_asked(self) -> None:
        """Note that kube-scheduler has asked this replica.

        A sidecar is asked by its own kube-scheduler only, so the lease belongs here when the
        present leader is not asked: a request for it is written into the lease. With labelPod
        it is the other way round, a Service leads the calls to where the lease is.
        """
        if self._settings.label_pod:
            return
        now = self._last_asked = self._now()
        if self._term:
            return
        self._stands_from = -inf
        if now - self._requested_at >= self._settings.retry_seconds:
            self._requested_at = now
            self._wake.set()

    # -- terms --------------------------------------------------------------------------

    async def gained(self) -> None:
        """Wait until a term begins. Whoever waits does not act, so a term nobody saw is over."""
        while not self.acts:
            if self._term:
                self._term = False
                self._wake.set()
            self._changed.clear()
            await self._changed.wait()

    async def lost(self) -> None:
        """Wait until the term is over."""
        while self.acts:
            self._changed.clear()
            await self._either(self._changed, self._until - self._now())
        self._stop_acting("the lease could not be renewed in time", hand_over=False)

    def resign(self, why: str) -> None:
        """Act no more in this term; ``ended`` will then hand the lease over at once."""
        self._stop_acting(why, hand_over=True)

    def _stop_acting(self, why: str, *, hand_over: bool) -> None:
        if not self._term or self._until == -inf:
            return
        log.warning("stopped leading", why=why, epoch=self.epoch)
        self._hand_over = hand_over
        self._until = -inf
        self._changed.set()

    async def ended(self) -> None:
        """Note that nothing acts any more.

        A lease that could not be renewed is not released: it is ours as soon as the API server
        answers again, unless another replica has it by then.
        """
        try:
            if self._hand_over and self._term:
                await self._release()
        except ApiError as error:
            log.warning("lease not released, it expires", error=str(error))
        finally:
            self._term = self._hand_over = False
            self._wake.set()

    async def run(self, stop: asyncio.Event, beat: Callable[[], None] = lambda: None) -> None:
        """Try to get the lease and to keep it, until ``stop`` is set. Releases nothing."""
        following = asyncio.create_task(self._follow(), name="lease watch")
        try:
            while not stop.is_set():
                beat()
                self._wake.clear()
                try:
                    await self._try()
                except ApiError as error:
                    log.warning("lease not read or written", error=str(error))
                await self._either(self._wake, self._pause())
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _pause(self) -> float:
        seconds = self._settings.retry_seconds
        if self._term:
            quiet_in = self._last_asked + seconds - self._now()
            return quiet_in if self._request[0] and 0 < quiet_in < seconds else seconds
        if self._wanted():
            # Out of step with the leader, whose renewals get in the way of a request.
            return seconds * (0.2 + 0.6 * self._rng.random())
        pause = seconds * (1 + self._rng.random() * JITTER)
        if self._valid(self._now()):
            # Not a moment later than the lease may be taken, nor much before.
            left = self._seen + seconds_of(self._lease) - self._now()
            return min(pause, max(left, seconds / 10))
        return pause

    # -- one try ------------------------------------------------------------------------

    async def _try(self) -> bool:
        """Renew or acquire (client-go's tryAcquireOrRenew). Returns whether that surely worked."""
        start, term = self._now(), self._term
        if self._term:
            if not self.acts:
                return False  # Until ``ended`` there is no new term, and this one is over.
            if self._gives_way(start):
                self.resign(f"kube-scheduler asks {self._request[0]}")
                return False
            if self._valid(start):
                try:
                    return self._keep(await self._store.update(self._renewal(self._lease)), start)
                except ApiError as error:
                    log.debug("lease not renewed at the first try", error=str(error))
        try:
            lease = await self._store.get()
        except NotFound:
            if self._term:
                self._stop_acting("the lease was deleted", hand_over=False)
                return False
            if self.holder not in ("", self.identity) and self._valid(start):
                return False  # Somebody has deleted it, and its holder may not know yet.
            fresh = with_spec(
                self._store.fresh(),
                self.identity,
                self._settings.lease_seconds,
                self._wall(),
                self.transitions + 1 if self._lease else 0,
            )
            return self._take(await self._store.create(fresh), start)
        if self._term != term:
            return False  # The term was ended meanwhile, and perhaps the lease released.
        self._observe(lease)
        if self._term:
            if holder_of(lease) != self.identity:
                why = f"{holder_of(lease) or 'no replica'} holds the lease"
                self._stop_acting(why, hand_over=False)
                return False
            if self._gives_way(self._now()):
                self.resign(f"kube-scheduler asks {self._request[0]}")
                return False
            return self._keep(await self._store.update(self._renewal(lease)), start)
        if holder_of(lease) not in ("", self.identity) and self._valid(start):
            await self._ask_for(lease)
            return False
        if start < self._stands_from or self._others_turn(lease, start):
            return False
        mine = with_spec(
            with_asked(lease, ""),
            self.identity,
            self._settings.lease_seconds,
            self._wall(),
            transitions_of(lease) + 1,
        )
        return self._take(await self._store.update(mine), start)

    def _renewal(self, lease: Object) -> Object:
        acquired = str(spec_of(lease).get("acquireTime") or "")
        asked, seen = self._request
        return with_spec(
            with_asked(lease, asked if self._last_asked <= seen else ""),
            self.identity,
            self._settings.lease_seconds,
            self._wall(),
            self.epoch,
            acquired,
        )

    def _keep(self, lease: Object, start: float) -> bool:
        """Note a renewal. One whose answer came after the deadline does not revive the term."""
        self._observe(lease)
        if self.acts:
            self._until = start + self._settings.renew_seconds
            return True
        return False

    def _take(self, lease: Object, start: float) -> bool:
        self._observe(lease)
        if self._now() >= start + self._settings.renew_seconds:
            return False  # Got so late that the term would be over before it begins.
        self.epoch = transitions_of(lease)
        self.terms += 1
        self._term = True
        self._until = start + self._settings.renew_seconds
        self._changed.set()
        log.info("leading", lease=self._store.named, identity=self.identity, epoch=self.epoch)
        return True

    def _observe(self, lease: Object) -> None:
        if spec_of(lease) != spec_of(self._lease):
            self._seen = self._now()
        self._lease = lease
        asked = asked_of(lease)
        if asked == self.identity:
            asked = ""
        if asked != self._request[0]:
            self._request = (asked, self._now())

    def _valid(self, now: float) -> bool:
        return self._seen + seconds_of(self._lease) > now

    async def _release(self) -> None:
        for _ in range(RELEASE_TRIES):
            lease = await self._store.get()
            self._observe(lease)
            if holder_of(lease) != self.identity:
                return
            empty = with_spec(lease, "", RELEASED_SECONDS, self._wall(), transitions_of(lease))
            try:
                self._observe(await self._store.update(empty))
            except Conflict:
                continue
            self._stands_from = self._now() + self._settings.lease_seconds
            log.info("lease released", asked=self._request[0])
            return

    # -- giving way to the replica that is asked ----------------------------------------

    def _gives_way(self, now: float) -> bool:
        """Whether another replica is asked and this one has not been for a while."""
        quiet = now - self._last_asked >= self._settings.retry_seconds
        return bool(self._request[0]) and quiet

    def _wanted(self) -> bool:
        return self._now() - self._last_asked < self._settings.lease_seconds

    async def _ask_for(self, lease: Object) -> None:
        """Write into the lease that this replica is asked, if it was lately."""
        if self._wanted() and asked_of(lease) != self.identity:
            self._observe(await self._store.update(with_asked(lease, self.identity)))

    def _others_turn(self, lease: Object, now: float) -> bool:
        """Whether a free lease is left to the replica that asked for it, for a moment."""
        asked = asked_of(lease)
        return (
            holder_of(lease) == ""
            and asked not in ("", self.identity)
            and now < self._seen + 2 * self._settings.retry_seconds
        )

    # -- waiting ------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Wake the loop as soon as the lease is free or another replica asks for it."""
        while True:
            try:
                async for lease in self._store.changes():
                    if not self._term:
                        # Seen late is safe; seen at once, the wait is not longer than need be.
                        self._observe(lease)
                    free = not self._term and holder_of(lease) == ""
                    known = ("", self.identity, self._request[0])
                    asked = self._term and asked_of(lease) not in known
                    if free or asked:
                        self._wake.set()
            except ApiError as error:
                log.debug("lease watch ended", error=str(error))
            except Exception:  # without it a hand-over takes as long as the next look at the lease
                log.exception("lease watch failed")
            await self._clocks.sleep(self._settings.retry_seconds)

    async def _either(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event, at most for a time."""
        if event.is_set():
            return
        waiting = asyncio.ensure_future(event.wait())
        sleeping = asyncio.ensure_future(self._clocks.sleep(max(0.0, seconds)))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()

    def _now(self) -> float:
        return self._clocks.monotonic()

    def _wall(self) -> float:
        return self._clocks.wall()
