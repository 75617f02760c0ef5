"""Arrays by one pointer: compiled code reads and writes what Python does."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from steptime.simulate.network.tables import by_pointer

ROW = np.dtype([("wide", np.float64), ("pair", np.int32, 2), ("flag", np.bool_)], align=True)


@by_pointer
class Some(NamedTuple):
    rows: Any
    floats: Any
    small: Any
    flags: Any
    paths: Any


def some() -> Some:
    return Some(
        np.zeros(3, ROW),
        np.arange(4.0),
        np.arange(5, dtype=np.int32),
        np.zeros(2, np.bool_),
        np.arange(6, dtype=np.int32).reshape(2, 3),
    )


@njit
def change(arrays, number):
    row = arrays.rows[number]
    row.wide, row.pair[1], row.flag = 2.5, 7, True
    arrays.floats[2] = len(arrays.floats) + arrays.floats.size
    arrays.small[4] = arrays.paths[1, 2] + arrays.paths.shape[1]
    arrays.flags[1] = not arrays.flags[1]
    arrays.paths[0, 0] = -arrays.small[number]
    last = arrays.paths[1]
    return last[0] + len(last) + arrays.floats[3] + arrays.paths.size


def test_compiled_code_reads_and_writes_the_arrays_themselves():
    arrays = some()
    assert change(arrays, 1) == 3 + 3 + 3.0 + 6
    assert arrays.rows["wide"].tolist() == [0.0, 2.5, 0.0]
    assert arrays.rows["pair"].tolist() == [[0, 0], [0, 7], [0, 0]]
    assert arrays.rows["flag"].tolist() == [False, True, False]
    assert arrays.floats.tolist() == [0.0, 1.0, 8.0, 3.0]
    assert arrays.small.tolist() == [0, 1, 2, 3, 8]
    assert arrays.flags.tolist() == [False, True]
    assert arrays.paths.tolist() == [[-1, 1, 2], [3, 4, 5]]


def test_arrays_that_are_replaced_are_found_where_they_are_now():
    arrays = some()
    change(arrays, 0)
    larger = arrays._replace(floats=np.arange(9.0))
    change(larger, 0)
    assert larger.floats[2] == 18.0
    assert arrays.floats[2] == 8.0


def test_items_that_do_not_lie_one_after_the_other_are_refused():
    with pytest.raises(TypingError, match="the items of floats do not lie one after the other"):
        change(some()._replace(floats=np.zeros(8)[::2]), 0)


def test_what_goes_wrong_on_the_way_is_raised(monkeypatch):
    change(some(), 0)
    monkeypatch.setattr(Some, "words", property(lambda _: 1 // 0))
    with pytest.raises(ZeroDivisionError):
        change(some(), 0)
