"""A strategy is one file: of a folder that the package leads to, or of the user's own."""

import pytest

from forked import forked
from steptime.errors import UsageError
from steptime.strategies import (
    live_strategy,
    simulated_strategy,
    strategies,
    strategy_named,
    trained_strategy,
)
from steptime.strategies.calls import Call, calls, not_simulated

IN_TWO = '''
"""The sum in two calls: every rank adds up its share, then all get it."""

from dataclasses import replace

from steptime.strategies import replicated


def reduce(comm, gradients):
    comm.reduce_scatter(gradients).wait()
    return [comm.all_gather(gradients)]


STRATEGY = replace(
    replicated.STRATEGY, name="in_two", summary="all_reduce as its two halves", reduce=reduce
)
'''
WITH_VALUES = '''
"""A strategy that looks at the values of its gradients, of which a Program has none."""

from dataclasses import replace

from steptime.strategies import replicated


def reduce(comm, gradients):
    gradients.mul_(1.0)
    return [comm.all_reduce(gradients)]


STRATEGY = replace(replicated.STRATEGY, name="with_values", summary="looks", reduce=reduce)
'''
COMPARE = (
    *("compare", "gpt2", "--ranks", "2", "--steps", "1", "--warmup", "1", "--layers", "1"),
    *("--heads", "2", "--hidden", "16", "--tokens", "16", "--batch", "4", "--json", "--out", "run"),
)
SIMULATE = ("simulate", "gpt2", "--cluster", "laptop", "--ranks", "4", "--json")


def command(*words, folder, foreign=None, code=0):
    """What a command prints as JSON where ``foreign`` is a folder that the package leads to."""
    led = f"import steptime.strategies; steptime.strategies.__path__.append('{foreign}')"
    ended = forked(*words, folder=folder, led=led if foreign else "")
    assert ended.code == code, ended.err
    return ended.json | {"stderr": ended.err}


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(IN_TWO)
    return path


def test_a_file_that_the_package_leads_to_is_simulated_with_the_others(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "in_two.py").write_text(IN_TWO)
    (foreign / "with_values.py").write_text(WITH_VALUES)
    run = command(*SIMULATE, folder=tmp_path, foreign=foreign)
    assert "the strategy with_values is not simulated: what it does with" in run["stderr"]
    found = run["strategies"]
    assert set(found) == {*strategies(), "in_two"} - {"zero2", "zero3"}
    assert found["in_two"]["summary"] == "all_reduce as its two halves"
    words = (*SIMULATE, "--strategy", "with_values")
    refused = command(*words, folder=tmp_path, foreign=foreign, code=2)
    assert "the strategy with_values cannot be simulated" in refused["error"]


@pytest.mark.usefixtures("own")
def test_users_files_are_compared_and_written_down(tmp_path):
    (tmp_path / "looks.py").write_text(WITH_VALUES)
    words = ("--strategies", "mine.py,replicated,looks.py", "--cluster", "laptop")
    run = command(*COMPARE, *words, folder=tmp_path)
    assert list(run["strategies"]) == ["mine.py", "replicated", "looks.py"]
    assert len({entry["parameter_hash"][0] for entry in run["strategies"].values()}) == 1
    assert list(run["simulated"]["strategies"]) == ["mine.py", "replicated"]
    assert (tmp_path / "run" / "program.json.gz").exists()


def test_a_users_file_is_simulated_by_what_it_calls(own):
    strategy = simulated_strategy(str(own))
    assert calls(strategy.reduce, 12, 4) == (Call("reduce_scatter", 12), Call("all_gather", 12))
    assert (strategy.name, calls(strategy.share, 12, 4)) == (str(own), ())


def test_a_strategy_that_looks_at_values_says_that_it_cannot_be_simulated(tmp_path):
    path = tmp_path / "looks.py"
    path.write_text(WITH_VALUES)
    assert "no attribute 'mul_'" in not_simulated(live_strategy(str(path)))
    with pytest.raises(UsageError, match="cannot be simulated: what it does with tensors"):
        simulated_strategy(str(path))


@pytest.mark.parametrize("name", ["zero2", "zero3"])
def test_what_keeps_no_whole_model_is_trained_and_not_compared(name):
    assert simulated_strategy(name) is trained_strategy(name)
    with pytest.raises(UsageError, match=f"{name} cannot be compared live: its ranks keep no"):
        live_strategy(name)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("ddp", "no strategy 'ddp': it is called overlapped here"),
        ("fsdp", "it is called zero3 here"),
        ("zero1", "it is called sharded here"),
        ("overlaped", "did you mean overlapped"),
        ("telepathy", "choose from server, replicated"),
        ("gone.py", "there is no file gone.py"),
    ],
)
def test_a_strategy_that_is_not_there_is_refused(word, sentence):
    with pytest.raises(UsageError, match=sentence):
        strategy_named(word)


def test_a_file_without_a_strategy_is_refused(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("STRATEGY = 3\n")
    with pytest.raises(UsageError, match=r"empty.py defines no strategy: let it end with STRATEGY"):
        strategy_named(str(path))


def test_calls_are_counted_where_a_vector_does_not_divide():
    server = strategies()["sliced"]
    asked = calls(server.reduce, 10, 4)
    assert [(call.elements, call.root) for call in asked] == [(3, 0), (3, 1), (3, 2), (1, 3)]
