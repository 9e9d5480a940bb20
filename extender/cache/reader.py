"""What the server sends, understood: pages of a list, and the events of a watch.

An object of the wrong shape is left out of a whole state, visibly, for reading it again cannot
mend it. Among changes it is an error: the state held would be wrong from there on.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
import structlog
from msgspec import Raw

from extender.cache.followed_resources import FollowedResource, ListPage, LooseEvent
from extender.cache.stats import WatchStats
from extender.cache.tables import Versioned
from extender.kube.api_errors import ApiError, from_status
from extender.model.apishape import RawMeta, RawNamespace
from extender.model.decode import describe
from extender.model.errors import InvalidInput

log = structlog.get_logger("cache")

Row = TypeVar("Row", bound=Versioned)

INITIAL_EVENTS_END = b'"k8s.io/initial-events-end"'

_loose_event = msgspec.json.Decoder(LooseEvent)
_loose_page = msgspec.json.Decoder(ListPage[Raw])  # type: ignore[type-var] # items stay raw
_only_meta = msgspec.json.Decoder(RawNamespace)


class Malformed(ApiError):  # noqa: N818 - named as the condition it is
    """An event cannot be understood: the state held may be wrong from here on."""

    def __init__(self, message: str) -> None:
        super().__init__(200, "Malformed", message)


class ResourceReader(Generic[Row]):
    """Decodes what is sent of one resource, and counts what cannot be decoded."""

    def __init__(self, resource: FollowedResource[Row], stats: WatchStats) -> None:
        self.resource = resource
        self.stats = stats

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
            except (InvalidInput, OverflowError, ValueError) as error:
                meta = item.metadata or RawMeta()
                name = "/".join(part for part in (meta.namespace, meta.name) if part)
                self._left_out(f"{resource.kind} {name}", error)
        return page.metadata.resource_version, page.metadata.continue_ or ""

    def _page_singly(self, body: bytes, records: dict[str, Row]) -> tuple[str, str]:
        """As above for a page with an object of the wrong shape: the others still count."""
        resource = self.resource
        try:
            page = _loose_page.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.stats.decode_errors += 1
            raise Malformed(f"GET {resource.path}: not a list: {error}") from error
        for raw in page.items or ():
            try:
                self._keep(resource.reduce(resource.decode_item(raw)), records)
            except (msgspec.DecodeError, InvalidInput, OverflowError, ValueError) as error:
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
                    del records[record.uid]
            except (InvalidInput, OverflowError, ValueError) as error:
                self._left_out(describe(resource.kind, _loose_event.decode(line).object), error)
        return len(lines), ""

    def _keep(self, record: Row, records: dict[str, Row]) -> None:
        if not record.uid:
            raise InvalidInput("metadata.uid: is missing")
        records[record.uid] = record

    def _left_out(self, name: str, error: Exception) -> None:
        """Leave a malformed object out of the state, visibly: reading again cannot mend it."""
        text = f"{name}: {error}"
        self.stats.left_out(name, text)
        log.error("object left out", resource=self.resource.name, error=text)

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
            meta = _only_meta.decode(event.object).metadata
        except msgspec.DecodeError as error:
            raise self.malformed(line, error) from error
        version = meta.resource_version if meta is not None else None
        if not version:
            raise self.malformed(line, ValueError("a bookmark without resourceVersion"))
        self.stats.bookmarks += 1
        return version

    def _loose(self, line: bytes, cause: Exception | None) -> LooseEvent:
        try:
            return _loose_event.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.malformed(line, cause or error) from error

    def malformed(self, line: bytes, cause: Exception) -> Malformed:
        """Count an event that cannot be understood; return what to raise."""
        self.stats.decode_errors += 1
        try:
            name = describe(self.resource.kind, _loose_event.decode(line).object)
        except (msgspec.DecodeError, UnicodeDecodeError):
            name = repr(line[:80])
        return Malformed(f"watch {self.resource.path}: event for {name}: {cause}")
