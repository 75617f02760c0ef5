"""An algorithm is one file: of a folder that the package leads to, or of the user's own."""

import pytest

from forked import forked
from steptime.collectives import algorithm_named, schedule
from steptime.collectives.export import msccl_xml
from steptime.collectives.lookup import find_algorithm, find_algorithms
from steptime.collectives.selection import Selection
from steptime.errors import SteptimeError, UsageError

TO_ALL = '''
"""Everybody sends everything to everybody."""

import numpy as np

from steptime.collectives import algorithm, send, together


@algorithm("all_reduce", chunks=lambda: 1)
def to_all(ranks):
    """Everybody sends its vector to everybody."""
    rank = np.arange(ranks)
    yield together(*(send(rank, (rank + far) % ranks, 0, reduce=True) for far in range(1, ranks)))
'''
SIMULATE = (
    *("simulate", "gpt2", "--cluster", "laptop", "--ranks", "4", "--strategy", "replicated"),
    *("--json", "--out", "run", "--algorithm"),
)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(TO_ALL)
    return str(tmp_path / "mine.py")


def command(*words, folder, code=0, led=""):
    ended = forked(*words, folder=folder, led=led)
    assert ended.code == code, ended.err
    return ended.json


def test_a_file_that_the_package_leads_to_is_verified_shown_and_simulated(tmp_path):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "to_all.py").write_text(TO_ALL)
    package = "steptime.collectives.all_reduce"
    led = f"import {package}\n{package}.__path__.append('foreign')"
    words = ("verify", "all_reduce", "--ranks", "2-4", "--json")
    proved = command(*words, folder=tmp_path, led=led)
    assert "to_all" in {result["algorithm"] for result in proved["results"]}
    shown = command("show", "to_all", "--ranks", "3", "--json", folder=tmp_path, led=led)
    assert shown["algorithms"][0]["algorithm"] == "to_all"
    there = command(*SIMULATE, "all_reduce=to_all", folder=tmp_path, led=led)
    (tmp_path / "mine.py").write_text(TO_ALL)
    by_file = command(*SIMULATE, "all_reduce=mine.py", folder=tmp_path)
    times = [run["strategies"]["replicated"]["step_time_s"]["median"] for run in (there, by_file)]
    assert times[0] == times[1] > 0


def test_an_msccl_program_is_simulated_as_what_it_was_written_of(tmp_path):
    text = msccl_xml(schedule(algorithm_named("all_reduce", "ring"), 4))
    (tmp_path / "ring4.xml").write_text(text)
    times = [
        command(*SIMULATE, f"all_reduce={name}", folder=tmp_path)["strategies"]["replicated"]
        for name in ("ring", "ring4.xml")
    ]
    assert times[0]["step_time_s"]["median"] == times[1]["step_time_s"]["median"]
    # Its one number of ranks is not that of this step.
    words = ["3" if word == "4" else word for word in SIMULATE]
    refused = command(*words, "all_reduce=ring4.xml", folder=tmp_path, code=2)
    assert "cannot serve 3 ranks" in refused["error"]


def test_a_wrong_one_is_not_simulated(tmp_path):
    (tmp_path / "wrong.py").write_text(TO_ALL.replace("range(1, ranks)", "range(1, ranks - 1)"))
    refused = command(*SIMULATE, "all_reduce=wrong.py", folder=tmp_path, code=1)
    assert "the all_reduce 'to_all' is wrong for 4 ranks: chunk 0 of rank 0" in refused["error"]


def test_a_selection_takes_a_file(own):
    chosen = Selection.parse(f"ring:0-8KiB;{own}:8KiB-max", "all_reduce", 4)
    assert (chosen.algorithm(8191), chosen.algorithm(8192)) == ("ring", own)
    assert find_algorithm("all_reduce", own).name == "to_all"
    with pytest.raises(UsageError, match="there is no all_gather"):
        Selection.parse(own, "all_gather", 4)


def test_a_file_with_several_is_refused_where_one_is_needed(tmp_path, own):
    (tmp_path / "mine.py").write_text(TO_ALL + TO_ALL.replace("to_all", "too_all"))
    assert [one.name for one in find_algorithms(own)] == ["to_all", "too_all"]
    with pytest.raises(UsageError, match="has 2 of all_reduce, to_all and too_all: leave one"):
        find_algorithm("all_reduce", own)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("ringg", "'ringg': did you mean ring"),
        ("allreduce", "'allreduce': did you mean all_reduce"),
        ("all-reduce", "did you mean all_reduce"),
        ("allreduce/ring", "no collective 'allreduce': did you mean all_reduce"),
        ("all_reduce/Rabenseifer", "did you mean rabenseifner"),
        ("nonsense", "choose one of .*ring"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(word, sentence):
    with pytest.raises(SteptimeError, match=sentence):
        find_algorithms(word)
