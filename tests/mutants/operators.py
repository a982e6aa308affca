"""Where a bug can be planted in a source, and what it then reads: a list of mutants, read from the syntax tree.

Each place yields one mutant at most, so that no line counts many times. A mutant is one replaced span of the text, so
a survivor prints as a short diff. Left out is what no test can or should notice: annotations, docstrings, log texts,
`__all__`, `__slots__`, `__repr__`, assertions, imports, code for type checkers alone (overloads, stubs, methods that
only say that a subclass has them), and the constants of `exempt.py`. So is a change that leaves a program's meaning as
it is: whether a maximum is replaced by its equal, in which order two values are compared for equality, and a `return`
or `continue` after which nothing would have come anyway.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from random import Random

from tests.mutants.exempt import EXEMPT

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
EXTREME = "_takes_an_extreme"  # set at a comparison whose boundary does not matter
LAST = "_is_last"  # set at a `return` or `continue` after which nothing comes
SYMMETRIC = {
    *SWAPPED_NAMES,
    "compare_digest",
    "isclose",
    "gcd",
    "lcm",
    "hypot",
    "meet",
}  # two arguments may change places
LOGGERS = {"log", "logger", "LOG", "LOGGER", "_log", "_logger", "logging", "warnings"}
UNSEEN_FUNCTIONS = {"__repr__", "__hash__", "__init_subclass__"}
UNSEEN_NAMES = {"__all__", "__slots__", "__match_args__", "__version__"}
UNSEEN_CALLS = {"cast", "TypeVar", "ParamSpec", "NewType", "overload", "getLogger", "isinstance", "field"}


@dataclass(frozen=True)
class Mutant:
    """One bug in one file: the text from `start` to `end` (offsets in characters) becomes `replacement`."""

    path: str
    line: int
    start: int
    end: int
    replacement: str
    operator: str

    def apply(self, source: str) -> str:
        """Return the source with the bug in it."""
        return source[: self.start] + self.replacement + source[self.end :]

    def diff(self, source: str) -> str:
        """Return the changed lines as a unified diff without its header."""
        lines = difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), n=1, lineterm="")
        return "\n".join(list(lines)[3:])


def mutants_of(path: str, source: str, random: Random) -> list[Mutant]:
    """Return a mutant for each place of this source that can have one; `random` chooses among several at one place."""
    return list(_Finder(path, source, random).mutants())


Proposal = tuple[ast.AST, str, str]  # the node that is replaced, by what, and the operator's name


class _Finder:
    """Walks the tree once, with what is around each node."""

    def __init__(self, path: str, source: str, random: Random) -> None:
        self._path = path
        self._source = source
        self._random = random
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = source.splitlines()

    def mutants(self) -> Iterator[Mutant]:
        tree = ast.parse(self._source)
        names = EXEMPT.get(self._path, ())
        tree.body = [statement for statement in tree.body if not _assigns(statement, names)]
        for node, replacement, operator in _proposals(tree, self._random):
            start = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            end = self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            mutant = Mutant(self._path, node.lineno, start, end, replacement, operator)  # type: ignore[attr-defined]
            if self._source[start:end] != replacement:
                yield mutant

    def _offset(self, line: int, column: int) -> int:
        """The tree counts columns in bytes of UTF-8."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def is_a_program(mutant: Mutant, source: str) -> bool:
    """Return whether the source with the bug can still be read."""
    try:
        ast.parse(mutant.apply(source))
    except SyntaxError:  # as where an older parser does not tell the columns within an f-string
        return False
    return True


def _proposals(tree: ast.Module, random: Random) -> Iterator[Proposal]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and _chooses_an_extreme(node):
            setattr(node.test, EXTREME, True)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _mark_last(node.body, ast.Return)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            _mark_last(node.body, ast.Continue)
    yield from _walk(tree, random, None)


def _walk(node: ast.AST, random: Random, function: ast.AST | None) -> Iterator[Proposal]:
    if _is_unseen(node):
        return
    proposals = [proposal for operator in OPERATORS for proposal in operator(node, function)]
    if proposals:
        yield random.choice(proposals)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.arg):
                continue
            if isinstance(child, ast.AST):
                yield from _walk(child, random, function)


def _chooses_an_extreme(node: ast.If | ast.IfExp) -> bool:
    """Whether this only takes the smaller or larger of two: then it does not matter which of two equals it takes."""
    match node:
        case ast.If(test=ast.Compare(left=a, comparators=[b]), body=[ast.Assign(targets=[c], value=d)], orelse=[]):
            return {_text(a), _text(b)} == {_text(c), _text(d)}
        case ast.IfExp(test=ast.Compare(left=a, comparators=[b]), body=c, orelse=d):
            return {_text(a), _text(b)} == {_text(c), _text(d)}
    return False


def _mark_last(body: list[ast.stmt], kind: type[ast.stmt]) -> None:
    """Mark statements of a kind that end a function or a turn of a loop where it ends anyway."""
    match body[-1] if body else None:
        case ast.If(body=first, orelse=second):
            parts = [first, second]
        case ast.With(body=first) | ast.AsyncWith(body=first):
            parts = [first]
        case ast.Try(body=first, handlers=handlers, orelse=second, finalbody=[]):
            parts = [*(handler.body for handler in handlers), second or first]
        case ast.Match(cases=cases):
            parts = [case.body for case in cases]
        case last:
            if isinstance(last, kind) and getattr(last, "value", None) is None:
                setattr(last, LAST, True)
            return
    for part in parts:
        _mark_last(part, kind)


def _assigns(statement: ast.stmt, names: Collection[str]) -> bool:
    """Whether a statement gives these names, and no others, their values."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)]) | ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target):
            targets = [target]
        case _:
            return False
    return all(isinstance(target, ast.Name) and target.id in names for target in targets)


def _is_unseen(node: ast.AST) -> bool:
    """Whether no test needs to notice a change within this node."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr() | ast.Pass() | ast.Global():
            return True
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in UNSEEN_FUNCTIONS:
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef() if _is_declaration(node):
            return True
        case ast.keyword(arg="strict", value=ast.Constant(value=True)):  # of zip: an assertion about lengths
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.If(test=ast.Attribute(attr="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name in UNSEEN_NAMES:
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in UNSEEN_CALLS:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in LOGGERS:
            return True
    return False


def _is_declaration(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is never run: an overload, a stub of a protocol, or what each subclass has to define."""
    if any("overload" in _text(decorator) for decorator in function.decorator_list):
        return True
    match function.body[-1]:
        case ast.Expr(value=ast.Constant(value=value)):  # `...`, or a docstring alone
            return len(function.body) <= 2 and (value is ... or len(function.body) == 1)
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in function.body[:-1])
    return False


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _compare(node: ast.AST, _: ast.AST | None) -> Iterator[Proposal]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS[type(node.ops[0])][getattr(node, EXTREME, False) :]:
            yield node, f"({_text(ast.Compare(node.left, [other()], node.comparators))})", "comparison"
    elif isinstance(node, ast.Compare):  # a chain: the first of its comparisons
        other = COMPARISONS[type(node.ops[0])][0]
        yield node, f"({_text(ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators))})", "comparison"


def _arithmetic(node: ast.AST, _: ast.AST | None) -> Iterator[Proposal]:
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        if any(isinstance(leaf, ast.JoinedStr) or _is_text(leaf) for leaf in ast.walk(node)):
            return
        yield node, f"({_text(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))})", "arithmetic"
    elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield node, _text(ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)), "arithmetic"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node, f"({_text(node.operand)})", "arithmetic"


def _boolean(node: ast.AST, _: ast.AST | None) -> Iterator[Proposal]:
    match node:
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node, f"({_text(ast.BoolOp(other, values))})", "and / or"
            dropped = values[:-1]
            yield node, f"({_text(ast.BoolOp(operator, dropped) if len(dropped) > 1 else dropped[0])})", "condition"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({_text(operand)})", "negation"
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            yield test, f"(not {_text(test)})", "negation"


def _constant(node: ast.AST, _: ast.AST | None) -> Iterator[Proposal]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield node, str(not node.value), "constant"
    elif isinstance(node.value, int):
        yield node, str(node.value + 1), "constant"
        if node.value > 0:
            yield node, str(node.value - 1), "constant"
    elif isinstance(node.value, float):
        yield node, repr(node.value * 2 if node.value else 1.0), "constant"
        if node.value:
            yield node, repr(node.value / 2), "constant"


def _call(node: ast.AST, _: ast.AST | None) -> Iterator[Proposal]:
    match node:
        case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
            if not _is_unseen(call):
                yield node, "pass", "dropped call"
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED_NAMES:
            yield node.func, SWAPPED_NAMES[name], "other function"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in SYMMETRIC:
            return
        case ast.Call(args=[first, second, *rest]) if not any(isinstance(a, ast.Starred) for a in node.args):
            if _text(first) != _text(second) and not _is_text(first) and not _is_text(second):
                swapped = copy.copy(node)
                swapped.args = [second, first, *rest]
                yield node, _text(swapped), "swapped arguments"


def _statement(node: ast.AST, function: ast.AST | None) -> Iterator[Proposal]:
    match node:
        case ast.AugAssign():
            yield node, "pass", "removed update"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if not _is_maker(function):
            yield node, "pass", "removed assignment"
        case ast.Assign(targets=[ast.Name(id=name)]) if function is not None and _is_reassigned(function, name, node):
            yield node, "pass", "removed assignment"
        case ast.Delete():
            yield node, "pass", "removed deletion"
        case ast.Break():
            yield node, "pass", "removed break"
        case ast.Continue() if not hasattr(node, LAST):
            yield node, "pass", "removed continue"
        case ast.Raise():
            yield node, "pass", "removed raise"
        case ast.Return(value=None) if function is not None and not hasattr(node, LAST):
            yield node, "pass", "removed return"
        case ast.Return(value=ast.expr() as value):
            returns = getattr(function, "returns", None)
            if returns is not None and "None" in _text(returns) and _text(value) != "None":
                yield node, "return None", "early return"
            elif returns is not None and _text(returns) == "bool" and not isinstance(value, ast.Constant):
                yield node, f"return not ({_text(value)})", "negation"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield node, f"({_text(ast.IfExp(test, orelse, body))})", "swapped branches"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_maker(function: ast.AST | None) -> bool:
    """Whether an attribute that is not set would make every use fail, which is no interesting bug."""
    return getattr(function, "name", "") in ("__init__", "__post_init__", "__setstate__")


def _is_reassigned(function: ast.AST, name: str, node: ast.Assign) -> bool:
    """Whether a local name has a value before this assignment."""
    arguments = getattr(function, "args", None)
    if isinstance(arguments, ast.arguments) and name in {
        a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    }:
        return True
    stores = [
        n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    return any((n.lineno, n.col_offset) < (node.lineno, node.col_offset) for n in stores)


OPERATORS: tuple[Callable[[ast.AST, ast.AST | None], Iterator[Proposal]], ...] = (
    _compare,
    _arithmetic,
    _boolean,
    _constant,
    _call,
    _statement,
)
