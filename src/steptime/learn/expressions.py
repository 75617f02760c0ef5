"""What a lesson says of the numbers of its commands: expressions and templates over them.

Both are Jinja's, in its sandbox: ``ring.results[0].rounds`` is a number of the command ``ring``,
and ``{{ '%.1f' % (ring.results[0].bytes / 1e6) }} MB`` a piece of text.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jinja2 import StrictUndefined, Undefined, UndefinedError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment

from steptime.errors import SteptimeError

_SANDBOX = SandboxedEnvironment(undefined=StrictUndefined)
_FUNCTIONS = {"ceil": math.ceil, "floor": math.floor, "log2": math.log2, "sqrt": math.sqrt}
_SANDBOX.globals.update(_FUNCTIONS)


def names_in(expression: str) -> set[str]:
    """The commands whose numbers an expression needs."""
    found = find_undeclared_variables(_SANDBOX.parse("{{ " + expression + " }}"))
    return found - _SANDBOX.globals.keys()


def value_of(expression: str, numbers: Mapping[str, Any]) -> Any:
    """What an expression is; SteptimeError where a number that it needs is not there."""
    with _needing(expression):
        value = _SANDBOX.compile_expression(expression, undefined_to_none=False)(**numbers)
        if isinstance(value, Undefined):
            raise UndefinedError("it is not there")
        return value


def filled(template: str, numbers: Mapping[str, Any]) -> str:
    """The text of a template; SteptimeError where a number that it needs is not there."""
    with _needing(template):
        return _SANDBOX.from_string(template).render(**numbers)


@contextmanager
def _needing(words: str) -> Iterator[None]:
    try:
        yield
    except (UndefinedError, TypeError) as error:
        raise SteptimeError(
            f"this lesson's numbers do not give {words!r} ({error}): begin it anew with --again"
        ) from None
