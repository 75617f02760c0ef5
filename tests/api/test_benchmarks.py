"""``steptime.bench`` on two ranks."""

import pytest

import steptime as st
from steptime.errors import UsageError


@pytest.mark.slow
def test_rows_come_home_checked() -> None:
    times = st.bench(ranks=2, minbytes="4KiB", maxbytes="64KiB", iters=2, algorithms="builtin,ring")
    assert [(row.size_bytes, row.algorithm) for row in times.measured] == [
        (size << 10, name) for size in (4, 16, 64) for name in ("builtin", "ring")
    ]
    assert all(row.out_of_place.wrong == 0 for row in times.measured)
    assert [len(contest["turns"]) for contest in times.content["contests"]] == [2, 2, 2]
    assert times.content["verb"] == "bench"
    assert len(times.to_pandas()) == 6
    assert "#wrong" in repr(times)
    assert "#wrong" in times._repr_html_()


def test_what_cannot_be_measured_is_refused_before_ranks_start() -> None:
    with pytest.raises(UsageError, match="at least 2 ranks"):
        st.bench("sendrecv", ranks=1)
    with pytest.raises(UsageError, match="choose gloo"):
        st.bench(backend="none")
