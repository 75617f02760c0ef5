"""Small faults to put into a file: each changes one place of its code, as a slip would."""

import ast
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass

COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
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
ARITHMETIC: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
PAIRS = (
    *(("min", "max"), ("argmin", "argmax"), ("minimum", "maximum"), ("any", "all")),
    *(("floor", "ceil"), ("zeros", "ones"), ("lstrip", "rstrip"), ("append", "remove")),
)
TWINS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A fault: ``text`` in the place of the bytes from ``start`` to ``end`` of a file.

    ``line`` is where the statement begins that it is in and ``last`` where the fault ends.
    """

    file: str
    line: int
    last: int
    operator: str
    start: int
    end: int
    text: str


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """All faults in the functions of a file, in its order."""
    lines = source.encode().splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    for node, statement in _code(ast.parse(source), None):
        for operator, place, text in _changes(node):
            first, last = place.lineno, place.end_lineno or place.lineno
            yield Mutant(
                file=file,
                line=statement.lineno,
                last=last,
                operator=operator,
                start=begins[first - 1] + place.col_offset,
                end=begins[last - 1] + (place.end_col_offset or 0),
                text=text,
            )


def applied(mutant: Mutant, source: str) -> str:
    """The source with the fault in it."""
    raw = source.encode()
    return (raw[: mutant.start] + mutant.text.encode() + raw[mutant.end :]).decode()


def _code(node: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """The nodes of code that runs in functions, each with its statement.

    No hints of types, no defaults; nothing in f-strings, whose places Python 3.11 does not tell.
    """
    if isinstance(node, ast.FunctionDef):
        for inner in node.body:
            yield from _code(inner, inner)
        return
    if isinstance(node, ast.stmt) and statement is not None:
        statement = node
    if isinstance(node, ast.JoinedStr) or _only_for_hints(node):
        return
    if statement is not None:
        yield node, statement
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "decorator_list", "bases"):
                yield from _code(child, statement)


def _only_for_hints(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Operator, place and new text of each fault that can be made of this very node."""
    match node:
        case ast.Compare():
            for number, one in enumerate(node.ops):
                for other in COMPARISONS[type(one)]:
                    ops = [*node.ops[:number], other(), *node.ops[number + 1 :]]
                    yield "comparison", node, _text(node, ops=ops)
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield "arithmetic", node, _text(node, op=ARITHMETIC[type(node.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            kind = "arithmetic" if isinstance(node.op, ast.USub) else "boolean"
            yield kind, node, _text(node.operand)
        case ast.BoolOp():
            other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "boolean", node, _text(node, op=other_op)
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", node, repr(value + 1 if isinstance(value, int) else 2 * value or 1.0)
        case ast.Return(value=ast.expr()):
            yield "return", node, "return None"
        case ast.If() | ast.IfExp() | ast.While():
            yield "boolean", node.test, f"(not {_text(node.test)})"
        case ast.Slice():
            yield from _bounds(node.lower, node.upper)
        case ast.Call(func=ast.Name(id="range")):
            yield from _bounds(node.args[0] if len(node.args) > 1 else None, node.args[:2][-1])
        case ast.Name(id=name) if name in TWINS:
            yield "min and max", node, TWINS[name]
        case ast.Attribute(attr=name) if name in TWINS:
            yield "min and max", node, f"{ast.unparse(node.value)}.{TWINS[name]}"
    if isinstance(node, ast.stmt) and _can_be_left_out(node):
        yield "dropped statement", node, "pass"


def _bounds(lower: ast.expr | None, upper: ast.expr | None) -> Iterator[tuple[str, ast.expr, str]]:
    """One more or one less of bounds that are no constants."""
    for bound, by in ((lower, "+ 1"), (upper, "- 1")):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield "off by one", bound, f"{_text(bound)} {by}"


def _can_be_left_out(node: ast.stmt) -> bool:
    """Whether the code is complete without a statement: it changes something that is there."""
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False


def _text(node: ast.expr | ast.stmt, **changed: object) -> str:
    """The code of a node with some of its fields changed, in parentheses where it has a value."""
    other = copy(node)
    for name, value in changed.items():
        setattr(other, name, value)
    text = ast.unparse(other)
    return f"({text})" if isinstance(node, ast.expr) else text
