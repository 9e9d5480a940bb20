"""Forms of source that have no good use: in tests, in texts, in calls, in records."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
ASSERTING = {"raises", "warns", "fail"}
"""Calls that fail a test."""
FAULTS_ALONE = {"test_the_decoders_alone"}
"""Tests of which the point is that nothing is raised."""
REAL_TIME = {
    "test_scheduler_gates_are_switchable",  # kube-scheduler's own time
    "test_a_first_message_that_is_being_sent_arrives_before_the_end",  # gRPC's threads send it
}
"""Tests of what other processes and threads do in a time that nobody can let pass."""


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def called(node: ast.Call) -> str:
    """The last part of what is called, in a thread as well."""
    match node:
        case ast.Call(func=ast.Attribute(attr="to_thread"), args=[ast.Name(id=name), *_]):
            return name
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def may_fail(function: Function, asserting: set[str]) -> bool:
    """Whether anything in it is there to fail a test, itself or in a helper."""
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and called(node) in asserting)
        for node in ast.walk(function)
    )


def helpers(trees: list[ast.Module]) -> set[str]:
    """Names of functions that fail a test, themselves or through others of these."""
    found = set(ASSERTING)
    calls: dict[str, set[str]] = {}
    for tree in trees:
        for one in functions(tree):
            if one.name.startswith("test_"):
                continue
            if may_fail(one, ASSERTING):
                found.add(one.name)
            inside = {called(node) for node in ast.walk(one) if isinstance(node, ast.Call)}
            calls[one.name] = calls.get(one.name, set()) | inside
    more = True
    while more:
        before = len(found)
        found |= {name for name, inside in calls.items() if inside & found}
        more = len(found) > before
    return found


def is_true(node: ast.expr) -> bool:
    """An expression that says True whatever the code does."""
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=[_, *_]):
            return True  # assert (a, "why")
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(is_true, values))
        case _:
            return False


def sleeps(statement: ast.AST) -> bool:
    """A statement that lets real time pass; a sleep of 0 seconds only lets others run."""
    match statement:
        case (
            ast.Expr(value=ast.Await(value=ast.Call() as call)) | ast.Expr(value=ast.Call() as call)
        ):
            none = call.args and isinstance(call.args[0], ast.Constant) and not call.args[0].value
            return called(call) == "sleep" and not none
        case _:
            return False


def hopes(node: ast.AST) -> Iterator[int]:
    """Lines of sleeps with an assertion right after them, or in a ``for`` that asserts each time.

    ``while`` waits for something. Functions inside may run in other time.
    """
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(node, name, None) or []
        again = block[:1] if isinstance(node, ast.For) and name == "body" else []
        for one, following in zip(block, [*block[1:], *again], strict=False):
            if sleeps(one) and isinstance(following, ast.Assert):
                yield one.lineno
        for inner in block:
            if not isinstance(inner, Function | ast.ClassDef | ast.While):
                yield from hopes(inner)


def faults(tree: ast.Module, asserting: set[str]) -> Iterator[tuple[int, str]]:
    """Line and fault of each form that cannot fail."""
    for function in functions(tree):
        if not function.name.startswith("test_") or function.name in FAULTS_ALONE:
            continue
        if not may_fail(function, asserting):
            yield function.lineno, f"{function.name} asserts nothing"
        if function.name not in REAL_TIME:
            for line in hopes(function):
                yield line, "a sleep, and then an assertion"
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test) if is_true(test):
                yield node.lineno, "an assertion that is always true"
            case ast.Call(args=args) if "until" in called(node):
                if any(isinstance(each, ast.Lambda) and is_true(each.body) for each in args):
                    yield node.lineno, "waits for what is true already"
            case ast.Call(args=[ast.Name(id="Exception" | "BaseException")], keywords=[]):
                if called(node) == "raises":
                    yield node.lineno, "any error will do, one of the test's own as well"


def test_every_test_can_fail() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in paths}
    asserting = helpers(list(trees.values()))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path, tree in trees.items()
        for line, fault in faults(tree, asserting)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("run()", "test_it asserts nothing"),
        ("helper()", ""),
        ("with pytest.raises(ValueError): run()", ""),
        ("with pytest.raises(Exception): run()", "any error"),
        ("with pytest.raises(Exception, match='words'): run()", ""),
        ("assert run(), 'why'", ""),
        ("assert (run(), 'why')", "always true"),
        ("assert run() or True", "always true"),
        ("assert run() or other()", ""),
        ("assert rig.until(lambda: True)", "true already"),
        ("assert rig.until(lambda: run())", ""),
        ("await asyncio.sleep(0.1); assert run()", "a sleep"),
        ("time.sleep(0.1)\n    assert run()", "a sleep"),
        ("await asyncio.sleep(0)\n    assert run()", ""),
        ("await passes(60)\n    assert run()", ""),
        ("for _ in range(9):\n        assert run()\n        time.sleep(0.1)", "a sleep"),
        ("while run():\n        assert clock() < end\n        time.sleep(0.1)", ""),
    ],
)
def test_forms(body: str, fault: str) -> None:
    tree = ast.parse(f"def helper():\n    assert run()\ndef test_it():\n    {body}\n")
    found = [words for _, words in faults(tree, helpers([tree]))]
    assert [fault in words for words in found] == ([True] if fault else [])


PACKAGE = Path(__file__).parents[2] / "extender"
PLURALS = (
    "binds|calls|claims|classes|columns|containers|days|decisions|documents|domains|"
    "entries|evictions|gangs|groups|Jobs|kinds|levels|lines|members|nodes|pages|"
    "parts|plans|pods|questions|reasons|records|refusals|replicas|requests|"
    "resources|roles|rows|seats|starts|streams|taints|times|tries|types|units|"
    "values|victims|ways|weeks|workers"
)
"""What this program counts. Bytes and characters are limits, and what is beyond them."""
BEHIND = re.compile(rf"^(</b>)? (?:[a-z]+ )?(?:{PLURALS})\b")
IN_TEMPLATE = re.compile(rf"\}}\}}(?:</b>)? (?:[a-z]+ )?(?:{PLURALS})\b")
NO_NOUN = re.compile(
    r"^ (?:and|as|at|by|for|from|has|have|holds?|in|is|are|its|keeps|makes?|may|names?|needs|no|of|"
    r"on|or|others|takes|tells?|that|the|their|to|uses|wants|with|write) "
)
"""What comes behind a name rather than a number."""
ANYWAY = {
    # kube-scheduler's and the API server's own words.
    ("sandbox/scheduler.py", " nodes are available: "),
    ("sandbox/eviction.py", " healthy pods"),
    # Not behind a number: an address with its verb, a dialect.
    ("check/plugin_rules.py", " binds"),
    ("groups/registry.py", " groups state their own unit, leave it out"),
    # Behind a number that cannot be 1, or that was made into words before.
    ("gang/plan/evicted_before.py", " times"),
    ("groups/composite_gang.py", " pods, "),
    ("search/problem/validate.py", " members, more than "),
}


def plural_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each plural that stands right behind a value."""
    for found in ast.walk(ast.parse(source)):
        if not isinstance(found, ast.JoinedStr):
            continue
        for value, text in zip(found.values, found.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            constant = isinstance(value.value, ast.Name) and value.value.id.isupper()
            measured = value.format_spec is not None
            worded = ast.unparse(value.value).startswith(("counted(", "all_of("))
            words = str(text.value)
            if BEHIND.match(words) and not (constant or measured or worded or NO_NOUN.match(words)):
                yield value.lineno, words


def test_no_f_string_puts_a_plural_behind_a_number() -> None:
    found, met = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("pb/"):
            continue
        for line, text in plural_texts(path.read_text("utf-8")):
            if (name, text) in ANYWAY:
                met.add((name, text))
            else:
                found.append(f"{name}:{line}: {text!r}")
    assert not found
    assert met == ANYWAY, "nothing is let pass that is not there"


def test_no_template_puts_a_plural_behind_a_number() -> None:
    templates = sorted(PACKAGE.rglob("*.html"))
    assert len(templates) > 5
    found = [
        f"{path.name}: {match[0]!r}"
        for path in templates
        for match in IN_TEMPLATE.finditer(path.read_text("utf-8"))
        if not NO_NOUN.match(match[0].removeprefix("}}").removeprefix("</b>"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('f"{len(pods)} pods are gone"', [" pods are gone"]),
        ('f"{n} more pods"', [" more pods"]),
        ('f"{n} entries" f" of {m} tries"', [" entries of ", " tries"]),
        ("f\"{counted(n, 'pod')} gone\"", []),
        ('f"{name} has pods"', []),
        ('f"{MOST} pods at most"', []),
        ('f"{hours:.1f} pods"', []),
    ],
)
def test_what_is_seen(source: str, found: list[str]) -> None:
    assert [text for _, text in plural_texts(source)] == found


CORE = Path(__file__).resolve().parents[2] / "extender" / "search" / "core"
MADE = re.compile(r"^\s*(?:cdef|cpdef|def)\b[^=(\n]*?(\w+)\(", re.M)
STRINGS = re.compile(r'"""(?s:.)*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*')
LITERAL = re.compile(r"\b(?:True|False)\b")


def own_functions(sources: list[str]) -> set[str]:
    """Names of the functions and methods that these sources define."""
    return {name for source in sources for name in MADE.findall(source)}


def bare_booleans(source: str, functions: set[str]) -> list[str]:
    """``function: line`` of each literal True or False that such a call passes without a name."""
    code = STRINGS.sub(lambda hit: "\n" * hit[0].count("\n"), source)
    found = []
    for literal in LITERAL.finditer(code):
        before, after = code[: literal.start()].rstrip(), code[literal.end() :].lstrip()
        if before[-1:] not in ("(", ",") or after[:1] not in ("", ")", ","):
            continue
        called = _called(before)
        if called in functions:
            found.append(f"{called}: {code.count(chr(10), 0, literal.start()) + 1}")
    return found


def _called(before: str) -> str:
    """The name before the bracket that is open at the end of this text."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        if before[at] in ")]}":
            depth += 1
        elif before[at] in "([{":
            if depth == 0:
                name = re.search(r"(\w+)$", before[:at])
                return name[1] if name and before[at] == "(" else ""
            depth -= 1
    return ""


def test_no_call_in_the_core_passes_a_bare_boolean() -> None:
    sources = {path: path.read_text() for path in sorted(CORE.rglob("*.p[yx][xd]"))}
    functions = own_functions(list(sources.values()))
    assert len(functions) > 200
    found = {path.name: bare_booleans(source, functions) for path, source in sources.items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self.explore(bound, False)", ["explore: 1"]),
        ("x\n    y = self.weigh(True)", ["weigh: 2"]),
        ("fill(\n    at(True), (n, [1, 2]), False\n)", ["fill: 2"]),
        ("if not self.fill(n, bits, True) > 0:", ["fill: 1"]),
        ("self.fill(n, most=True)", []),
        ("fill(n == False)", []),
        ("seen.assign(R, False)", []),
        ("fill((True, False))", []),
        ("x = True\ny = (True)", []),
        ('"""fill(n, True)"""  # fill(n, True)\ntell("fill(True)")', []),
    ],
)
def test_what_is_found_is_a_bare_boolean_of_a_call_of_ours(source: str, found: list[str]) -> None:
    assert bare_booleans(source, {"explore", "weigh", "fill", "tell"}) == found


def test_what_is_ours_is_read_from_its_definition() -> None:
    source = """
cdef inline bint late(Clock* clock) noexcept nogil:
cdef class Packing:
    cdef vector[int] counts, least
    def seat(self, groups, bint most):
    cdef Fit weigh(self, Wanted wanted) noexcept nogil:
        cdef int n = len(groups)
cdef const i64* rows_of(int n) noexcept nogil
"""
    assert own_functions([source]) == {"late", "seat", "weigh", "rows_of"}


LIMBS = re.compile(r"^\s*cdef i64 \w+\[[^]]+\]", re.M)


def test_only_its_own_type_says_how_long_a_packed_cost_is() -> None:
    assert LIMBS.search("    cdef i64 bound[6]")
    assert LIMBS.search("cdef i64 bound[MOST_LIMBS]")
    found = [path.name for path in CORE.rglob("*.p[yx][xd]") if LIMBS.search(path.read_text())]
    assert found == []


BOOLEAN_ROOT = Path(__file__).resolve().parents[2]
BOOLEAN_PACKAGE = BOOLEAN_ROOT / "extender"
BY_PLACE = {"extender/decode/from_api.py: Pod": "by keyword it takes a sixth of the decoding"}
"""Where and of which record, and why."""
RECORDS = ("NamedTuple", "Struct", "dataclass")
Fields = dict[str, list[list[bool]]]
"""Record's name -> for each of that name, whether a field is a boolean, in their order."""


def boolean_fields(trees: Iterable[ast.Module]) -> Fields:
    """Return those of records that may be made by position."""
    found: Fields = defaultdict(list)
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            made_of = [ast.unparse(each) for each in (*node.bases, *node.decorator_list)]
            by_name = any(each.arg == "kw_only" for each in node.keywords)
            if by_name or not any(kind in each for kind in RECORDS for each in made_of):
                continue
            annotated = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            found[node.name].append([ast.unparse(each.annotation) == "bool" for each in annotated])
    return found


def by_place(tree: ast.Module, fields: Fields) -> list[str]:
    """Names of records that a module makes with a boolean by its place."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [(call.func.id, call.args) for call in calls if isinstance(call.func, ast.Name)]
    return [
        name
        for name, args in made
        for booleans in fields.get(name, ())
        if any(booleans[: len(_before_star(args))])
    ]


def _before_star(args: Sequence[ast.expr]) -> list[ast.expr]:
    stars = [at for at, each in enumerate(args) if isinstance(each, ast.Starred)]
    return list(args[: stars[0]] if stars else args)


def test_no_boolean_of_a_record_is_given_by_its_place() -> None:
    trees = {
        path: ast.parse(path.read_text())
        for path in sorted(BOOLEAN_PACKAGE.rglob("*.py"))
        if "pb" not in path.parts
    }
    fields = boolean_fields(trees.values())
    assert sum(any(each) for records in fields.values() for each in records) > 40
    found = {
        f"{path.relative_to(BOOLEAN_ROOT)}: {name}"
        for path, tree in trees.items()
        for name in by_place(tree, fields)
    }
    assert found == set(BY_PLACE)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        ("Offer(1, True)", True),
        ("Offer(1, a > b)", True),
        ("Offer(1, known=True)", False),
        ("Offer(1)", False),
        ("Offer(*both)", False),
        ("Other(1, True)", False),
    ],
)
def test_a_boolean_by_its_place_is_seen(call: str, *, seen: bool) -> None:
    fields = boolean_fields([ast.parse("class Offer(Struct):\n    at: int\n    known: bool\n")])
    assert bool(by_place(ast.parse(call), fields)) is seen


def test_a_record_that_takes_names_alone_is_passed_over() -> None:
    source = "class Offer(Struct, kw_only=True):\n    known: bool\n"
    assert by_place(ast.parse("Offer(True)"), boolean_fields([ast.parse(source)])) == []
