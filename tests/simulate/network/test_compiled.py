"""Compiled code, and where it is kept."""

from pathlib import Path
from types import FunctionType

import pytest
from numba.core.types import Literal

from simulate.networks import star
from simulate.programs import one_forward_one_backward
from steptime.simulate import division
from steptime.simulate.network import __file__ as package
from steptime.simulate.network import agenda, engine, max_min, series, state
from steptime.simulate.network.compiled import in_place
from steptime.simulate.network.flows import finish_times
from steptime.simulate.step import simulate


def test_code_that_can_be_kept_nowhere_is_compiled_all_the_same():
    names = {}
    exec("def twice(x): return 2 * x", names)  # noqa: S102  # numba keeps nothing without a file
    assert in_place(names["twice"])(21) == 42


def test_code_is_kept():
    finish_times(star(2), [0], [1], [1], [0])
    stats = engine.run.stats
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) == 1


def test_kept_code_is_of_all_files_that_the_engine_is_in():
    sources = Path(package).parent.glob("*.py")
    texts = {path.name: path.read_text() for path in sources}
    parts = {name for name, text in texts.items() if "@in" in text and "net: Network" in text}
    assert parts | {"compiled.py", "state.py"} == set(state.ENGINE)


def test_each_function_is_compiled_for_one_type_of_each_argument():
    """Another type is compiled anew, and the first run on a machine waits for all of that.

    A constant is a type of its own: what is called with one may have a second.
    """
    finish_times(star(4), [0, 1, 2, 0], [1, 2, 3, 3], [1, 2, 3, 4], [0, 0, 0, 1])
    for module in (agenda, engine, max_min, series):
        for name, function in vars(module).items():
            found = [
                signature
                for signature in getattr(function, "signatures", ())
                if not any(isinstance(one, Literal) for one in signature)
            ]
            assert len(found) <= 1, name


def test_division_reads_no_array_beyond_its_end(monkeypatch: pytest.MonkeyPatch):
    """Compiled code does not notice; as plain Python it would fail."""
    pipeline = one_forward_one_backward(3, 4, 1.0, 2.0)
    compiled = simulate(pipeline, star(3), steps=2).ranks
    names = {**vars(division), "fill_starts": division.fill_starts.py_func}
    names["_counted_as"] = division._counted_as.py_func
    plain = FunctionType(division._divide.py_func.__code__, names)
    monkeypatch.setattr(division, "_divide", plain)
    assert simulate(pipeline, star(3), steps=2).ranks.tolist() == compiled.tolist()
