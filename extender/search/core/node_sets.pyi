from collections.abc import Iterable, Sequence

class NodeSets:
    def __init__(
        self, requests: Sequence[Sequence[int]], levels: int, counts: Sequence[int] = ()
    ) -> None: ...
    def add(
        self,
        n: int,
        free: Sequence[int],
        most: Sequence[int],
        limits: Iterable[tuple[Sequence[int], int]],
        units: Sequence[tuple[int, Sequence[int], Sequence[int], int]],
        switches: Sequence[tuple[int, Sequence[int]]],
        every: bool = False,
    ) -> bool: ...
    def found(self) -> tuple[bytes, ...]: ...
