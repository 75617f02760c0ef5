"""The page on accuracy shows what the shipped rows and parameters give."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from plan_rows import shipped

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
HELD_OUT = "held out"  # takes minutes


@pytest.fixture(scope="module")
def accuracy():
    """Imported when a test runs: matplotlib and scipy take a second, and may not be there."""
    return pytest.importorskip("accuracy", exc_type=ImportError)


@pytest.fixture(scope="module")
def blocks(accuracy):
    return accuracy.blocks_of(shipped())


def shown(page: str, name: str) -> str:
    (found,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end -->", page, re.S)
    return found


@pytest.mark.slow
def test_the_page_is_of_todays_predictions(accuracy, blocks):
    page = accuracy.PAGE.read_text()
    names = set(re.findall(r"<!-- (.+) -->", page)) - {"end", HELD_OUT}
    assert names == blocks.keys()
    for name, text in blocks.items():
        assert shown(page, name) == f"{text}\n", f"run benchmarks/accuracy.py: {name} has changed"


def test_the_worst_rows_are_twenty_and_in_order(accuracy, blocks):
    lines = blocks["worst"].splitlines()[2:]
    errors = [float(line.split(" | ")[4]) for line in lines]
    apart = [max(1 + error / 100, 1 / (1 + error / 100)) for error in errors]
    assert len(lines) == accuracy.WORST
    assert all(a >= b - 0.01 for a, b in pairwise(apart))


def test_every_row_is_in_one_group_of_each_table(accuracy):
    found = shipped()
    timed = [one for one in found.judged if one.row.step_s]
    for key in (accuracy.source, accuracy.device, accuracy.gpus, accuracy.size):
        assert sum(map(len, accuracy.grouped(timed, key).values())) == len(timed)


def test_blocks_are_put_between_their_marks(accuracy):
    page = "a\n<!-- one -->\nold\n<!-- end -->\nb\n"
    assert accuracy.renewed(page, {"one": "new"}) == "a\n<!-- one -->\nnew\n<!-- end -->\nb\n"
    with pytest.raises(SystemExit, match="has no <!-- two -->"):
        accuracy.renewed(page, {"two": "new"})
