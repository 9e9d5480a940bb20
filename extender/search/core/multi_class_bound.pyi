from collections.abc import Iterable, Sequence

from extender.search.core.columns import Columns
from extender.search.problem.stop import Flag

class MultiClassBound:
    def __init__(
        self,
        columns: Columns,
        inside: bytes,
        extra_level: int,
        gone: Iterable[int],
        kept: Iterable[int],
        requests: Sequence[Sequence[int]],
        counts: Sequence[int],
        allowed: Sequence[bytes],
        together: Sequence[int],
    ) -> None: ...
    def search(
        self, deadline: float, cancel: Flag | None
    ) -> tuple[tuple[int, ...], list[int], list[int]] | tuple[()] | None: ...
