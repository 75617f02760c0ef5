"""``steptime.sweep``: every combination, and those that are refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def test_processes_sweep_as_this_one_does_and_what_is_kept_is_not_called_again(
    tmp_path: Path,
) -> None:
    calls = tmp_path / "calls"
    calls.touch()

    def work(rows: int, ranks: int) -> float:  # of no module, and with steptime in it
        with calls.open("a") as file:
            file.write(f"{rows} {ranks}\n")
        if rows % ranks:
            raise UsageError(f"{rows} do not divide among {ranks}: {st.__name__}")
        return rows / ranks

    several = {"rows": [6, 8], "ranks": [2, 3]}
    kept = tmp_path / "kept"
    apart = st.sweep(work, **several, jobs=2, cache=kept)
    assert [cell.result for cell in apart.cells] == [3.0, 2.0, 4.0, None]
    again = st.sweep(work, **several, cache=str(kept))
    assert again == apart
    assert sorted(calls.read_text().split("\n")) == ["", "6 2", "6 3", "8 2", "8 3"]
    with ThreadPoolExecutor(1) as threads:
        assert st.sweep(work, **several, jobs=threads) == apart
        assert threads.submit(len, "left as it is").result() == 13


def test_simulations_of_processes_are_those_of_this_one(tmp_path: Path) -> None:
    several = {"cluster": "dgx-h100", "ranks": [2, 3], "strategy": "overlapped"}
    apart = st.sweep(st.simulate, model="gpt2", **several, cache=tmp_path, jobs=2)
    alone = st.sweep(st.simulate, model="gpt2", **several)
    assert apart.rows == alone.rows
    assert "Simulated on dgx-h100" in repr(apart.cells[0].result)


def test_bad_jobs_are_refused_before_anything_is_called() -> None:
    with pytest.raises(UsageError, match="--jobs is 'some'"):
        st.sweep(share, work=6, ranks=[1], jobs="some")
