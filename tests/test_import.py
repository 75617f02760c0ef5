"""``import steptime``: quick, and its names win over the packages of the same name."""

import subprocess
import sys
from types import ModuleType

import pytest

import steptime as st

HEAVY = ("torch", "numpy", "rich", "cyclopts", "cloudpickle", "asyncio", "inspect")


def test_importing_loads_nothing_heavy() -> None:
    code = f"import sys, steptime; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize("name", st.__all__)
def test_every_name_that_is_offered_is_there_and_documented(name: str) -> None:
    assert name in dir(st)
    assert not isinstance(getattr(st, name), ModuleType)
    assert name == "__version__" or len(getattr(st, name).__doc__) > 80


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = st.simulat  # type: ignore[attr-defined]
