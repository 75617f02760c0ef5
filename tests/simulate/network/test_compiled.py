"""Compiled code, and where it is kept."""

from pathlib import Path

import pytest

from simulate.networks import star
from steptime.simulate.network import __file__ as package
from steptime.simulate.network import engine, state
from steptime.simulate.network.compiled import compiled, in_place
from steptime.simulate.network.flows import finish_times


@pytest.mark.parametrize("decorator", [compiled, in_place])
def test_code_that_can_be_kept_nowhere_is_compiled_all_the_same(decorator):
    names = {}
    exec("def twice(x): return 2 * x", names)  # noqa: S102  # numba keeps nothing without a file
    assert decorator(names["twice"])(21) == 42


def test_code_is_kept():
    finish_times(star(2), [0], [1], [1], [0])
    stats = engine.run.stats
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) == 1


def test_kept_code_is_of_all_files_that_the_engine_is_in():
    sources = Path(package).parent.glob("*.py")
    texts = {path.name: path.read_text() for path in sources}
    parts = {name for name, text in texts.items() if "@in_place" in text and "net: Network" in text}
    assert parts | {"compiled.py", "state.py"} == set(state.ENGINE)
