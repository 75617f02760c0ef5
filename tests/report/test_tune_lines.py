"""The lines of a tuning."""

import numpy as np

from steptime.measure.contest import Contest
from steptime.report.tune_lines import contest_line


def contest(names: tuple[str, ...], seconds: list[list[float]]) -> Contest:
    """A contest at 4 bytes in which algorithms took so many seconds, a row for each turn."""
    return Contest(4, names, np.tile(np.arange(len(names)), (len(seconds), 1)), np.array(seconds))


def test_a_row_keeps_its_columns_however_late_a_call_was() -> None:
    late = [[1e-6, 10.0 ** (turn % 2)] for turn in range(10)]
    line = contest_line(contest(("scatter_all_gather", "builtin"), late))
    assert " *scatter_all_gather " in line
    assert line.endswith(">999x  >999 (>999 to >999)")
    assert len(line) <= 80


def test_a_row_tells_who_is_level_and_where_there_is_no_builtin() -> None:
    alike = contest(("ring", "flat", "builtin"), [[1e-6, 2e-6, 1.1e-6], [1e-6, 2e-6, 0.9e-6]] * 5)
    assert contest_line(alike).split()[-5:] == ["1.00x", "level", "with", "1", "other"]
    line = contest_line(contest(("ring", "flat"), [[1e-6, 2e-6], [1e-6, 2.002e-6]] * 5))
    assert line.endswith(" -  2.00 (2.00 to 2.00)")
    assert contest_line(contest(("ring",), [[1e-6]])).split() == ["4B", "*ring", "1.00", "µs", "-"]
