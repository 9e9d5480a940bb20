from collections.abc import Sequence

Cost = tuple[int, ...]

def cover(
    amounts: list[tuple[int, ...]], costs: list[Cost], need: list[int], branches: int
) -> tuple[Cost | None, list[int], bool, Cost | None]: ...
def choose(
    groups: Sequence[Sequence[Cost | None]],
    demand: int,
    cutoff: Cost | None,
    most_states: int,
    settle_below: Cost | None,
) -> tuple[int, list[int], Cost, Cost, list[int]]: ...
