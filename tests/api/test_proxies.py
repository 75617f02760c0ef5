"""``steptime.proxy``: what live ranks send comes home as a run."""

from pathlib import Path

import pytest

import steptime as st
from steptime.errors import UsageError


@pytest.mark.slow
def test_what_ranks_send_comes_home_and_stays_in_its_folder(tmp_path: Path) -> None:
    run = st.proxy(
        "gpt2-nano",
        ranks=2,
        tensor=2,
        steps=3,
        cluster="dgx-h100-pod",
        scale_bytes="1/4",
        verify=True,
    )
    proxy = run.record.proxy
    assert proxy is not None
    assert proxy.step is not None
    assert proxy.step.verified is not None
    assert proxy.step.verified.checked > 0
    assert run.record.simulated is not None  # the same step on the cluster
    assert run.record.place.world_size == 2
    there = st.load(run.save(tmp_path / "run"))
    assert there.step_s == run.step_s
    assert there.figures.step_time_s == run.figures.step_time_s


def test_a_step_that_cannot_be_starts_no_rank() -> None:
    with pytest.raises(UsageError, match="tensor"):
        st.proxy("gpt2-nano", ranks=3, tensor=2)
    with pytest.raises(UsageError, match="--compute"):
        st.proxy("gpt2-nano", ranks=2, compute="busy")
