"""What a function is given, by the names of its parameters."""

import inspect
from collections.abc import Callable
from typing import Any


def given(function: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """The arguments of a call by name; nothing where the function does not take them."""
    try:
        return dict(inspect.signature(function).bind(*arguments, **options).arguments)
    except TypeError:
        return {}
