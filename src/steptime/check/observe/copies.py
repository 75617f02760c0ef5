"""Copies: calls that write into a tensor which the line itself makes of another, and then drops."""

import ast
import linecache
from collections.abc import Sequence
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch

from steptime.check.observe.buffers import memory_of

_WRITING = {
    *("all_gather_into_tensor", "all_reduce", "all_to_all_single", "broadcast", "recv", "reduce"),
    *("reduce_scatter", "reduce_scatter_tensor", "scatter"),
}
"""Functions that write into their first argument."""

_COPYING = {
    *("bfloat16", "contiguous", "cpu", "cuda", "double", "flatten", "float", "half", "int", "long"),
    *("index_select", "masked_select", "reshape", "to", "type", "type_as"),
}
"""Methods of a tensor that may give another with memory of its own; ``clone`` means to, and is one
of a gradient, which nobody reduces but to step by it."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_LONGEST = 60  # characters of what is told


class Copies:
    """What the calls of a script are given as their first argument, where that is no name.

    Where ``x[mask]`` or ``x.cpu()`` has other memory than ``x``, nobody has what a call writes into
    it once the line is over.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[CodeType, int], tuple[ast.expr, ast.expr] | None] = {}

    def dropped(self, frame: FrameType, written: Sequence[torch.Tensor]) -> str:
        """The copy that a line makes of a tensor and has written into, as it stands there.

        Empty where the memory that is ``written`` is that of the tensor, or where it is not known.
        """
        key = frame.f_code, frame.f_lasti
        if key not in self._made:
            self._made[key] = _copy_in(_call_at(*key))
        made = self._made[key]
        if made is None or not written:
            return ""
        argument, source = made
        of = _value(source, frame)
        if not all(type(one) in _PLAIN for one in (of, *written)):
            return ""
        copied = all(memory_of(one) != memory_of(of) for one in written)
        return ast.unparse(argument)[:_LONGEST] if copied else ""


def _copy_in(call: ast.expr | None) -> tuple[ast.expr, ast.expr] | None:
    """The first argument of a call and what it is made of, if it may be a copy of that."""
    if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] not in _WRITING:
        return None
    named = [one.value for one in call.keywords if one.arg in ("tensor", "output")]
    made = next(iter([*call.args, *named]), None)
    if isinstance(made, ast.Subscript):
        return made, made.value
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        of = made.func.value
        of_gradient = isinstance(of, ast.Attribute) and of.attr == "grad"
        copies = made.func.attr in _COPYING or (made.func.attr == "clone" and of_gradient)
        return (made, of) if copies else None
    return None


def _call_at(code: CodeType, instruction: int) -> ast.expr | None:
    """The expression that an instruction of a script belongs to, read anew from its file."""
    begin, end, left, right = next(islice(code.co_positions(), instruction // 2, None))
    if begin is None or end is None or left is None or right is None:
        return None
    lines = [linecache.getline(code.co_filename, line).encode() for line in range(begin, end + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1][:right]  # columns count bytes, and the last line may be the first
    lines[0] = lines[0][left:]
    try:
        return ast.parse(b"".join(lines).decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _value(expression: ast.expr, frame: FrameType) -> Any:
    """What a name, an attribute of a tensor or a module, or an item of a list or dict is there.

    None where that is something else: to evaluate it again might do something.
    """
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id))
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.Attribute):
        owner = _value(expression.value, frame)
        known = isinstance(owner, torch.Tensor | torch.nn.Module)
        return getattr(owner, expression.attr, None) if known else None
    if isinstance(expression, ast.Subscript):
        owner, index = _value(expression.value, frame), _value(expression.slice, frame)
        if type(owner) in (list, tuple) and isinstance(index, int):
            return owner[index]
        return owner.get(index) if isinstance(owner, dict) else None
    return None
