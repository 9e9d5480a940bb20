Entry = tuple[int, float]
Column = tuple[int, float, list[Entry]]
Moment = tuple[list[int], dict[int, float], list[int]]

def steps(
    signs: list[int],
    limits: list[float],
    groups: int,
    columns: list[Column],
    excess_price: float,
    moments: list[Moment],
) -> list[tuple[float, dict[int, float], list[float], float]]: ...
