"""``steptime.compare`` on two ranks."""

from pathlib import Path

import pytest

import steptime as st
from steptime.errors import UsageError


@pytest.mark.slow
def test_strategies_are_trained_and_their_figures_come_home(tmp_path: Path) -> None:
    run = st.compare(ranks=2, strategies="replicated,sharded", steps=2, warmup=1, batch=2)
    assert list(run.strategies) == ["replicated", "sharded"]
    assert run.figures.source == "measured"
    assert len(set(run.figures.parameter_hash)) == 1
    assert run.record.place.world_size == 2
    assert run.timeline is not None
    assert "replicated" in repr(run)
    assert st.load(run.save(tmp_path / "run")).step_s == run.step_s


def test_what_cannot_be_trained_is_refused_before_ranks_start() -> None:
    with pytest.raises(UsageError, match="does not divide among 3 ranks"):
        st.compare(ranks=3)
    with pytest.raises(UsageError, match="strateg"):
        st.compare(strategies="shardedd")
