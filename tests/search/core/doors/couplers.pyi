from extender.search.core.columns import Columns

def eliminated(
    columns: Columns, inside: bytes, demand: int
) -> tuple[list[list[tuple[int, ...] | None]], bool, int] | None: ...
