from extender.search.problem import Problem

class Doubtful(Exception): ...  # noqa: N818

class Columns:
    def __init__(self, problem: Problem) -> None: ...
