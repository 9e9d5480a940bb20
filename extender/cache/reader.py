"""What the server sends, understood: pages of a list, and the events of a watch.

An object of the wrong shape is left out of a whole state, visibly, for reading it again cannot
mend it. Among changes it is an error: the state held would be wrong from there on. But for
resources of which tenants may write what they like: there it is left out as well, if it says which
one it is, so that no tenant keeps the others' from being read.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
import structlog
from msgspec import Raw

from extender.cache.followed_resources import FollowedResource, ListPage, LooseEvent
from extender.cache.nesting import patient
from extender.cache.stats import WatchStats
from extender.cache.tables import Versioned
from extender.decode.api_objects import RawMeta, RawNamespace
from extender.decode.from_json import describe
from extender.kube.api_errors import ApiError, Gone, from_status
from extender.model.errors import InvalidInput

log = structlog.get_logger("cache")

Row = TypeVar("Row", bound=Versioned)

EXPECTED = (msgspec.DecodeError, InvalidInput, OverflowError, ValueError)
"""What a decoder and a reduction say of an object that is not as it should be."""
DELETED = "DELETED"
CHANGES = ("ADDED", "MODIFIED", DELETED)
INITIAL_EVENTS_END = b'"k8s.io/initial-events-end"'

_loose_event = patient(msgspec.json.Decoder(LooseEvent).decode)
_loose_page = patient(
    msgspec.json.Decoder(ListPage[Raw]).decode  # type: ignore[type-var] # items stay raw
)
_only_meta = patient(msgspec.json.Decoder(RawNamespace).decode)


class Malformed(ApiError):  # noqa: N818 - named as the condition it is
    """An event cannot be understood: the state held may be wrong from here on."""

    def __init__(self, message: str) -> None:
        super().__init__(200, "Malformed", message)


class ResourceReader(Generic[Row]):
    """Decodes what is sent of one resource, and counts what cannot be decoded."""

    def __init__(self, resource: FollowedResource[Row], stats: WatchStats) -> None:
        self.resource = resource
        self.stats = stats

    def version(self, body: bytes) -> str:
        """Return the version of a list whose objects do not matter. Raises Malformed."""
        try:
            return _loose_page(body).metadata.resource_version
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Malformed(f"GET {self.resource.path}: not a list: {error}") from error

    def not_below(self, version: str, seen: str) -> None:
        """Raise Gone when the server is at a version below one already seen."""
        if version.isdecimal() and seen.isdecimal() and int(version) < int(seen):
            raise Gone(
                410,
                "WentBack",
                f"GET {self.resource.path}: version {version} after {seen}; "
                "the server's storage was put back",
            )

    def page(self, body: bytes, records: dict[str, Row]) -> tuple[str, str]:
        """Add a page's records; return the list's version and the next page's token."""
        resource = self.resource
        try:
            page = resource.decode_page(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._page_singly(body, records)
        for item in page.items or ():
            try:
                self._keep(resource.reduce(item), records)
            except Exception as error:  # ours about this one included: it is still there next time
                self._left_out(self._told(item.metadata or RawMeta()), error)
        return page.metadata.resource_version, page.metadata.continue_ or ""

    def _page_singly(self, body: bytes, records: dict[str, Row]) -> tuple[str, str]:
        """As above for a page with an object of the wrong shape: the others still count."""
        resource = self.resource
        try:
            page = _loose_page(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.stats.decode_errors += 1
            raise Malformed(f"GET {resource.path}: not a list: {error}") from error
        for raw in page.items or ():
            try:
                self._keep(resource.reduce(resource.decode_item(raw)), records)
            except Exception as error:  # as above
                self._left_out(describe(resource.kind, raw), error)
        return page.metadata.resource_version, page.metadata.continue_ or ""

    def initial(self, lines: list[bytes], records: dict[str, Row]) -> tuple[int, str]:
        """Collect initial events; return the lines used and, once at their end, the version."""
        resource, stats = self.resource, self.stats
        for used, line in enumerate(lines, start=1):
            try:
                event = resource.decode_event(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                loose = self._loose(line, error)
                if loose.type not in ("BOOKMARK", "ERROR"):
                    self._left_out(describe(resource.kind, loose.object), error)
                    continue
                kind = loose.type
            else:
                kind = event.type
            if kind == "BOOKMARK" or kind == "ERROR":
                version = self.bookmark(line, None)
                if INITIAL_EVENTS_END in line:
                    return used, version
                continue
            stats.events += 1
            try:
                record = resource.reduce(event.object)
                self._keep(record, records)
                if kind == "DELETED":
                    records.pop(record.uid, None)
            except Exception as error:  # as above
                self._left_out(describe(resource.kind, _loose_event(line).object), error)
        return len(lines), ""

    def _keep(self, record: Row, records: dict[str, Row]) -> None:
        if not record.uid:
            raise InvalidInput("metadata.uid: is missing")
        if self.resource.kept(record):
            records[record.uid] = record
        else:
            records.pop(record.uid, None)

    def _left_out(self, name: str, error: Exception) -> None:
        """Leave a malformed object out of the state, visibly: reading again cannot mend it."""
        text = f"{name}: {error if isinstance(error, EXPECTED) else repr(error)}"
        if self.stats.left_out(name, text):
            exc = None if isinstance(error, EXPECTED) else error
            log.error("object left out", resource=self.resource.name, error=text, exc_info=exc)

    def without(self, line: bytes, cause: Exception) -> RawMeta | None:
        """Leave the object of a change out; return which one it is.

        None where that must not be, or it is not known: read again, all is as it is.
        """
        if not self.resource.spares_others:
            return None
        event = self._loose(line, cause)
        if event.type not in CHANGES:
            return None
        try:
            meta = _only_meta(event.object).metadata
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if meta is None or not (meta.uid and meta.name and meta.resource_version):
            return None
        if event.type == DELETED:
            self.mended(meta)
        else:
            self._left_out(self._told(meta), cause)
        return meta

    def mended(self, meta: RawMeta | None) -> bool:
        """Note that an object is read, or gone; return whether it was left out before."""
        return meta is not None and self.stats.no_longer_left_out(self._told(meta))

    def _told(self, meta: RawMeta) -> str:
        """Return "Kind namespace/name", as ``describe`` does."""
        name = "/".join(part[:253] for part in (meta.namespace, meta.name) if part)
        return f"{self.resource.kind} {name}"

    # -- what carries no object -----------------------------------------------------------------

    def bookmark(self, line: bytes, cause: Exception | None) -> str:
        """Return a bookmark's version. Raises what an ERROR event says, Malformed for the rest."""
        event = self._loose(line, cause)
        if event.type == "ERROR":
            try:
                status = msgspec.json.decode(event.object)
            except msgspec.DecodeError as error:
                raise self.malformed(line, error) from error
            raise from_status(status if isinstance(status, dict) else {})
        if event.type != "BOOKMARK":
            raise self.malformed(line, cause or ValueError("unexpected event"))
        try:
            meta = _only_meta(event.object).metadata
        except msgspec.DecodeError as error:
            raise self.malformed(line, error) from error
        version = meta.resource_version if meta is not None else None
        if not version:
            raise self.malformed(line, ValueError("a bookmark without resourceVersion"))
        self.stats.bookmarks += 1
        return version

    def _loose(self, line: bytes, cause: Exception | None) -> LooseEvent:
        try:
            return _loose_event(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.malformed(line, cause or error) from error

    def malformed(self, line: bytes, cause: Exception) -> Malformed:
        """Count an event that cannot be understood; return what to raise."""
        self.stats.decode_errors += 1
        try:
            name = describe(self.resource.kind, _loose_event(line).object)
        except (msgspec.DecodeError, UnicodeDecodeError):
            name = repr(line[:80])
        return Malformed(f"watch {self.resource.path}: event for {name}: {cause}")
