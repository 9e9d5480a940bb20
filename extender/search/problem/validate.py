"""Refuse a malformed Problem before the search trusts its indices and sizes.

Every check names the field and the index at fault, so that whoever built the
problem can find the line. Amounts and costs may be as large as they like: the
compiled core refuses what could leave an int64 (extender/search/core/columns.pyx),
and the plain search, whose integers have no end, takes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.model.errors import InvalidInput
from extender.model.texts import counted
from extender.search.problem.types import MOST_MEMBERS, Problem, Vector


def validate(problem: Problem) -> None:
    """Raise InvalidInput where the problem contradicts the shapes it documents."""
    check_frame(problem)
    check_units(problem)


def check_frame(problem: Problem) -> None:
    """Everything but the units; quick, since it looks at no unit."""
    nodes, resources, levels = len(problem.nodes), len(problem.resources), len(problem.levels)
    _columns(problem, nodes, resources)
    _classes(problem, nodes, resources)
    for index, gang in enumerate(problem.gangs):
        where = f"gangs[{index}]"
        _length(gang.break_cost, levels, f"{where}.break_cost")
        _not_negative(gang.break_cost, f"{where}.break_cost")
        if gang.surplus < 0:
            raise InvalidInput(f"{where}.surplus is {gang.surplus}, below 0")
    for index, budget in enumerate(problem.budgets):
        if not budget.hard and not 0 <= budget.level < levels:
            raise InvalidInput(f"budgets[{index}].level {budget.level} is not a cost level")
        if budget.allowed < 0:
            raise InvalidInput(f"budgets[{index}].allowed is {budget.allowed}, below 0")
    _rules(problem, nodes)


def check_units(problem: Problem) -> None:
    """The units, one by one.

    The compiled core makes the same checks while it copies the units, and asks
    here only for the words when one fails.
    """
    _units(problem, len(problem.nodes), len(problem.resources), len(problem.levels))


def _columns(problem: Problem, nodes: int, resources: int) -> None:
    if len(problem.free) != resources:
        raise InvalidInput(
            f"free has {counted(len(problem.free), 'column')} for {counted(resources, 'resource')}"
        )
    for index, column in enumerate(problem.free):
        if column.typecode != "q":
            raise InvalidInput(f"free[{index}] must be array('q'), not {column.typecode!r}")
        _length(column, nodes, f"free[{index}]")


def _classes(problem: Problem, nodes: int, resources: int) -> None:
    if not problem.classes:
        raise InvalidInput("classes is empty")
    for index, cls in enumerate(problem.classes):
        where = f"classes[{index}] ({cls.name})"
        _length(cls.request, resources, f"{where}.request")
        _not_negative(cls.request, f"{where}.request")
        _length(cls.allowed, nodes, f"{where}.allowed")
        if cls.count < 0:
            raise InvalidInput(f"{where}.count is {cls.count}, below 0")
        if not 0 <= cls.least <= cls.count:
            raise InvalidInput(f"{where}.least is {cls.least}, not within 0..{cls.count}")
    total = sum(cls.count for cls in problem.classes)
    if total > MOST_MEMBERS:
        raise InvalidInput(f"the classes have {total} members, more than {MOST_MEMBERS}")
    if not 0 <= problem.need <= total:
        raise InvalidInput(f"need is {problem.need}, not within 0..{total} (the classes' counts)")


def _units(problem: Problem, nodes: int, resources: int, levels: int) -> None:
    seen: set[str] = set()
    for index, unit in enumerate(problem.units):
        where = f"units[{index}] ({unit.uid})"
        if unit.uid in seen:
            raise InvalidInput(f"{where}: this uid occurs twice")
        seen.add(unit.uid)
        _length(unit.cost, levels, f"{where}.cost")
        _not_negative(unit.cost, f"{where}.cost")
        if not -1 <= unit.gang < len(problem.gangs):
            raise InvalidInput(f"{where}.gang {unit.gang} is no index into gangs")
        previous: set[int] = set()
        for node, amounts in unit.releases:
            if not 0 <= node < nodes:
                raise InvalidInput(f"{where}.releases names node {node} of {nodes}")
            if node in previous:
                raise InvalidInput(f"{where}.releases names node {node} twice")
            previous.add(node)
            _length(amounts, resources, f"{where}.releases on node {node}")
            _not_negative(amounts, f"{where}.releases on node {node}")
        taken: set[int] = set()
        for budget, pods in unit.budgets:
            if not 0 <= budget < len(problem.budgets):
                raise InvalidInput(f"{where}.budgets names budget {budget}, which is not there")
            if budget in taken:
                raise InvalidInput(f"{where}.budgets names budget {budget} twice")
            taken.add(budget)
            if pods < 1:
                raise InvalidInput(
                    f"{where}.budgets takes {counted(pods, 'pod')} from budget {budget}"
                )


def _rules(problem: Problem, nodes: int) -> None:
    classes = len(problem.classes)
    for index, blocker in enumerate(problem.blockers):
        where = f"blockers[{index}]"
        if not 0 <= blocker.cls < classes:
            raise InvalidInput(f"{where}.cls {blocker.cls} is no class")
        if not 0 <= blocker.node < nodes:
            raise InvalidInput(f"{where}.node {blocker.node} is no node")
        for unit in blocker.units:
            if not 0 <= unit < len(problem.units):
                raise InvalidInput(f"{where}.units names unit {unit}, which is not there")
    for index, cap in enumerate(problem.caps):
        where = f"caps[{index}]"
        for cls in cap.classes:
            if not 0 <= cls < classes:
                raise InvalidInput(f"{where}.classes names class {cls}, which is not there")
        _length(cap.domain, nodes, f"{where}.domain")
        if cap.limit < 0:
            raise InvalidInput(f"{where}.limit is {cap.limit}, below 0")
    for index, spread in enumerate(problem.spreads):
        where = f"spreads[{index}]"
        for cls in (*spread.bound, *spread.counted):
            if not 0 <= cls < classes:
                raise InvalidInput(f"{where} names class {cls}, which is not there")
        _length(spread.domain, nodes, f"{where}.domain")
        _length(spread.fewest, len(spread.most), f"{where}.fewest")
        _not_negative(spread.fewest, f"{where}.fewest")
        _not_negative(spread.most, f"{where}.most")
        for domain in set(spread.domain):
            if not -1 <= domain < len(spread.most):
                raise InvalidInput(f"{where}.domain names domain {domain} of {len(spread.most)}")
        if spread.max_skew < 1:
            raise InvalidInput(f"{where}.max_skew is {spread.max_skew}, below 1")
    if problem.domain is not None:
        _length(problem.domain, nodes, "domain")
        if not problem.domain_required and not 0 <= problem.domain_level < len(problem.levels):
            raise InvalidInput(
                f"domain_level {problem.domain_level} is no cost level, and the domain is preferred"
            )


def _length(values: Sequence[int], wanted: int, where: str) -> None:
    if len(values) != wanted:
        raise InvalidInput(f"{where} has {counted(len(values), 'entry')}, not {wanted}")


def _not_negative(values: Vector, where: str) -> None:
    for value in values:
        if value < 0:
            raise InvalidInput(f"{where} has a negative entry ({value})")
