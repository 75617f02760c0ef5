"""``steptime.scale``: curves on live ranks and on a cluster, as the verb has them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import steptime as st
from steptime.errors import UsageError
from steptime.runs.run_folder import read_record
from steptime.timeline import read_chrome_trace


@pytest.mark.slow
def test_points_that_take_turns_come_home_and_lie_in_a_folder(tmp_path: Path) -> None:
    curve = st.scale(
        ranks=[1, 2], strategies=["replicated", "overlapped"], steps=3, warmup=1, batch=8
    )
    assert curve.record.in_turns
    assert [(row["ranks"], row["strategy"]) for row in curve.rows] == [
        (1, "replicated"),
        (2, "replicated"),
        (2, "overlapped"),
    ]
    assert curve.rows[0]["speedup"] == 1
    assert all(cell.speedup_ci95 for cell in curve.cells)  # for turns make pairs
    out = curve.save(tmp_path / "curve")
    timeline = read_chrome_trace(out / "cells/2x1/trace.json.gz")
    assert set(timeline.intervals["rank"].tolist()) == {0, 1}
    assert [cell["ranks"] for cell in read_record(out)["cells"]] == [1, 2, 2]


@pytest.mark.slow
def test_on_a_cluster_it_is_the_answer_of_the_verb(tmp_path: Path) -> None:
    several = {"ranks": "8,16", "strategies": "overlapped", "kind": "strong"}
    curve = st.scale("gpt2", cluster="dgx-h100-pod", tensor=2, zero=None, **several)
    words = "scale gpt2 --cluster dgx-h100-pod --ranks 8,16 --strategies overlapped --strong"
    done = subprocess.run(
        [sys.executable, "-m", "steptime", *words.split(), "--tensor", "2", "--json"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    told = json.loads(done.stdout)
    assert [cell["step_time_s"] for cell in told["cells"]] == [
        cell.step_time_s for cell in curve.cells
    ]
    assert "8×1" in repr(curve)


def test_what_belongs_to_the_other_way_is_refused() -> None:
    with pytest.raises(UsageError, match="--steps is about a training here"):
        st.scale("gpt2", ranks=8, cluster="dgx-h100-pod", steps=3)
    with pytest.raises(UsageError, match="--tensor is not for a training here"):
        st.scale(ranks=2, tensor=2)
    with pytest.raises(UsageError, match="--ranks has 'x'"):
        st.scale(ranks="1,x")
