"""Plain counters of what the reflectors and the store do; the server turns them into metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from extender.cache.backoff import BRIEF
from extender.model.texts import cut

MAX_UNDECODABLE = 100
"""How many malformed objects are remembered by name, per resource."""


class DescribedWatch(TypedDict):
    """One resource that is followed, as the debug API shows it."""

    resource: str
    """Its name."""
    path: str
    """The path of its list."""
    synced: bool
    """Whether the whole state was read at least once."""
    up: bool
    """Whether a watch is open that continues the state held."""
    silentSeconds: float
    """How long the watch has been down; 0 while it is open."""
    contactAgeSeconds: float
    """Since the last event, bookmark or accepted request."""
    version: str
    """resourceVersion of the last event or bookmark."""
    lists: int
    """Full lists that were begun."""
    watches: int
    """Watches that were accepted."""
    events: int
    """Events that were applied."""
    bookmarks: int
    """Bookmarks that came."""
    errors: int
    """Requests and streams that failed."""
    decodeErrors: int
    """Objects and events that could not be read."""
    relists: int
    """How often the whole state was read again after the first time."""
    syncSeconds: float
    """How long the last reading of the whole state took."""
    lastError: str
    """The last error, empty without one."""
    undecodable: dict[str, str]
    """Object that is left out because it cannot be read -> why."""


@dataclass
class WatchStats:
    """One resource's reflector. Times are of the cache's monotonic clock."""

    resource: str
    path: str
    lists: int = 0
    """LIST requests that were started (a paged one counts once)."""
    watches: int = 0
    """Watch requests that were accepted, WatchList ones included."""
    events: int = 0
    bookmarks: int = 0
    errors: int = 0
    """Requests and streams that failed, short watches included."""
    decode_errors: int = 0
    relists: int = 0
    """Times the whole state was read again after the first."""
    version: str = ""
    """resourceVersion of the last event or bookmark."""
    changed: str = ""
    """resourceVersion of the last event: whoever watches the same objects comes to it too."""
    synced: bool = False
    """Whether the whole state has been read at least once."""
    up: bool = False
    """Whether a watch is open that continues the state held."""
    down_since: float = 0.0
    opened_at: float = 0.0
    """When the last watch was accepted."""
    last_contact: float = 0.0
    """When the last event, bookmark or accepted request was seen."""
    shown_at: float = 0.0
    """When the last event or bookmark came, or the whole state was read."""
    sync_seconds: float = 0.0
    """How long the last reading of the whole state took."""
    last_error: str = ""
    undecodable: dict[str, str] = field(default_factory=dict)
    """Objects left out of the state because they are malformed -> why."""
    crowded: bool = False
    """Whether there were more of them than are remembered."""

    def left_out_by_name(self) -> dict[tuple[str, str], str]:
        """Return the objects left out, (namespace, name) -> why; no namespace where it has none.

        ("", "") is there when more may have been left out than are remembered.
        """
        found: dict[tuple[str, str], str] = {}
        if self.crowded or len(self.undecodable) >= MAX_UNDECODABLE:
            found["", ""] = "too many"
        for told, why in self.undecodable.items():
            path = told.partition(" ")[2]  # "Kind namespace/name", as model.decode.describe says
            namespace, _, name = path.rpartition("/")
            if name and " " not in path:
                found[namespace, name] = why.removeprefix(f"{told}: ")
        return found

    def silent_for(self, now: float) -> float:
        """Return how long the watch has been down, 0 while it is open.

        One that was accepted a moment ago and has shown nothing may yet say that its version is too
        old: the state is as old as it was before. A quiet one shows by its age that all is well.
        """
        proven = now - self.opened_at >= BRIEF or self.opened_at - self.shown_at < BRIEF
        return 0.0 if self.up and proven else max(0.0, now - self.down_since)

    def described(self, now: float) -> DescribedWatch:
        """Return what the debug API shows; ages in seconds."""
        return {
            "resource": self.resource,
            "path": self.path,
            "synced": self.synced,
            "up": self.up,
            "silentSeconds": round(self.silent_for(now), 3),
            "contactAgeSeconds": round(now - self.last_contact, 3),
            "version": self.version,
            "lists": self.lists,
            "watches": self.watches,
            "events": self.events,
            "bookmarks": self.bookmarks,
            "errors": self.errors,
            "decodeErrors": self.decode_errors,
            "relists": self.relists,
            "syncSeconds": round(self.sync_seconds, 3),
            "lastError": cut(self.last_error),
            "undecodable": {name: cut(why) for name, why in self.undecodable.items()},
        }

    def opened(self, now: float) -> None:
        """Note that the watch is open."""
        self.up = True
        self.last_contact = self.opened_at = now

    def closed(self, since: float) -> None:
        """Note that the watch is down, in truth since ``since``."""
        if self.up:
            self.up = False
            self.down_since = since

    def left_out(self, name: str, why: str) -> bool:
        """Note a malformed object; return whether that is news: it is not told for each change."""
        self.decode_errors += 1
        self.last_error = why
        known = name in self.undecodable
        if known or len(self.undecodable) < MAX_UNDECODABLE:
            self.undecodable[name] = why
            return not known
        self.crowded = True
        return False

    def no_longer_left_out(self, name: str) -> bool:
        """Note that an object is read, or gone; return whether it was left out before."""
        return self.undecodable.pop(name, None) is not None

    def forget_left_out(self) -> None:
        """All is read anew."""
        self.undecodable.clear()
        self.crowded = False


@dataclass
class CacheStats:
    """The whole cache."""

    watches: dict[str, WatchStats] = field(default_factory=dict)
    """By resource name; optional resources only while they are served."""
    outdated_events: int = 0
    """Events about a state older than the one held, ignored."""
    subscriber_errors: int = 0
    """Changes that whoever follows them did not bear: a mistake of ours."""
    discoveries: int = 0
    discovery_errors: int = 0
    """Questions what is served that were not answered, or not understood."""
    unfamiliar: tuple[str, ...] = ()
    """What of this API server was not tested or is not read (cache.unfamiliar)."""

    @property
    def decode_errors(self) -> int:
        """Malformed objects seen, all resources together."""
        return sum(watch.decode_errors for watch in self.watches.values())
