"""``steptime.verify`` and ``steptime.show``: names, files and functions, and how they are shown."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import steptime as st
from steptime.collectives import Round, algorithm, send
from steptime.errors import UsageError


@algorithm("all_gather", name="mine")
def neighbours(ranks: int) -> Iterator[Round]:
    """Pass each chunk once round the ring."""
    rank = np.arange(ranks)
    for step in range(ranks - 1):
        yield send(rank, (rank + 1) % ranks, (rank - step) % ranks)


@algorithm("all_gather", name="lazy")
def lazy(ranks: int) -> Iterator[Round]:
    """Send nothing but the own chunk to the next rank."""
    rank = np.arange(ranks)
    yield send(rank, (rank + 1) % ranks, rank)


def test_a_function_of_ones_own_is_proved() -> None:
    proved = st.verify(neighbours, ranks=[2, 5, 3])
    assert proved.ok
    assert [(row["algorithm"], row["ranks"], row["rounds"]) for row in proved.rows] == [
        ("mine", 2, 1),
        ("mine", 3, 2),
        ("mine", 5, 4),
    ]
    assert "mine" in repr(proved)
    assert "mine" in proved._repr_html_()
    assert list(proved.to_pandas()["rounds"]) == [1, 2, 4]


def test_a_wrong_one_is_found_out() -> None:
    proved = st.verify(lazy, ranks=4)
    assert not proved.ok
    assert proved.verdicts[0].findings
    assert "wrong" in repr(proved)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"algorithm": "ringg"}, "ring"),
        ({"algorithm": "ring", "ranks": []}, "at least one rank"),
        ({"algorithm": "all_gather/recursive_doubling", "ranks": 3}, "serves none of the ranks 3"),
    ],
)
def test_what_cannot_be_proved_is_refused(options, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        st.verify(**options)


def test_pictures_stand_side_by_side_and_play(tmp_path: Path) -> None:
    shown = st.show("all_gather/ring", neighbours, ranks=4)
    assert [panel.algorithm.name for panel in shown.panels] == ["ring", "mine"]
    assert "→1 c0" in repr(shown)
    page = shown.save(tmp_path / "page.html").read_text()
    assert page == shown.page()
    assert "all_gather on 4 ranks: ring and mine" in page
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!')


def test_what_is_wrong_with_ones_own_is_marked() -> None:
    shown = st.show(lazy, ranks=4)
    assert not shown.ok
    assert shown.panels[0].findings
    assert "wrong" in repr(shown)


def test_a_picture_on_a_cluster_is_simulated() -> None:
    (panel,) = st.show("ring", ranks=4, nbytes="4MiB", cluster=st.cluster("dgx-h100-pod")).panels
    assert panel.timeline is not None
    assert 0 < panel.timeline.seconds < 1


def test_a_picture_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="name an algorithm"):
        st.show()
    with pytest.raises(UsageError, match="drop one"):
        st.show("ring", hosts=2, cluster="dgx-h100-pod")
