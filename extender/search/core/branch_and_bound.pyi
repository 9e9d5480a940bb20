from collections.abc import Iterable, Sequence

from extender.search.core.columns import Columns
from extender.search.problem.stop import Flag

class BranchAndBound:
    possible: bool
    settled_free: bool
    found_first: bool
    def __init__(
        self,
        columns: Columns,
        inside: bytes,
        extra_level: int = -1,
        gone: Iterable[int] = (),
        kept: Iterable[int] = (),
        need: int = -1,
        domain: Iterable[int] | None = None,
        domain_limit: Iterable[int] = (),
    ) -> None: ...
    def search(
        self,
        cutoff: Sequence[int] | None,
        branch_limit: int,
        deadline: float,
        cancel: Flag | None,
    ) -> tuple[list[int] | None, tuple[int, ...] | None, bool, int]: ...
    def free_answer(self) -> list[int]: ...
    def least(self, units: Sequence[int]) -> list[int] | None: ...
    def shortage(self) -> tuple[int, int, int, list[tuple[int, int, int]]]: ...
    def seats(self, units: Sequence[int], fill: bool) -> list[tuple[int, int]]: ...
