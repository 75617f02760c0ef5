"""``steptime.sweep``: every combination, and those that are refused."""

import pytest

import steptime as st
from steptime.errors import UsageError


def share(work: int, ranks: int, unit: str = "s") -> float:
    if work % ranks:
        raise UsageError(f"{work} {unit} do not divide among {ranks} ranks")
    return work / ranks


def test_every_combination_is_a_row_in_order_and_a_refusal_says_why() -> None:
    swept = st.sweep(share, work=[6, 8], ranks=(2, 3), unit="rows")
    assert [cell.result for cell in swept.cells] == [3.0, 2.0, 4.0, None]
    assert swept.rows[2] == {"work": 8, "ranks": 2, "result": 4.0, "refused": ""}
    assert swept.rows[3]["refused"] == "8 rows do not divide among 3 ranks"
    assert "do not divide" in repr(swept)
    assert list(swept.to_pandas()["ranks"]) == [2, 3, 2, 3]


def test_without_refusals_there_is_no_column_of_them() -> None:
    seen = []

    def track(over, what):
        seen.append((len(over), what))
        return over

    assert st.sweep(share, work=6, ranks=range(1, 4), track=track).rows[0] == {
        "ranks": 1,
        "result": 6.0,
    }
    assert seen == [(3, "combinations")]


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        st.sweep(share, work=6, ranks=[0])
    with pytest.raises(UsageError, match="ranks has no values"):
        st.sweep(share, work=6, ranks=[])
