"""Every way in which a job stands and ends, in a sentence."""

from pathlib import Path

import pytest

from steptime.slurm import Status
from steptime.submit.words import failure, standing


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (Status(state="PENDING", reason="Resources"), "waits (Resources: for free nodes)"),
        (
            Status(state="PENDING", reason="Priority", start="2026-11-23T15:00:00"),
            "waits (Priority: others come first); expected to start at 2026-11-23T15:00:00",
        ),
        (Status(state="PENDING", reason="QOSGrpCpuLimit"), "waits (QOSGrpCpuLimit)"),
        (Status(state="PENDING", reason="Resources", restarts=1), ", requeued once, waits (Res"),
        (Status(state="RUNNING", nodes="n[1-2]"), "runs on n[1-2]"),
        (Status(state="RUNNING", nodes="n1", restarts=3), ", requeued 3 times, runs on n1"),
        (Status(state="SUSPENDED"), "is suspended"),
    ],
)
def test_where_a_job_is(status: Status, sentence: str) -> None:
    assert not status.over
    assert standing(12, status).startswith("job 12")
    assert sentence in standing(12, status)


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (
            Status(state="FAILED", exit_code=3),
            3,
            "job 12 failed: its command ended with exit code 3",
        ),
        (Status(state="FAILED", exit_code=137), 137, "a rank was killed by SIGKILL"),
        (Status(state="FAILED", exit_code=143), 143, "was stopped by SIGTERM"),
        (Status(state="FAILED", signal=11), 139, "its script was killed by SIGSEGV"),
        (
            Status(state="FAILED", signal=53, nodes="n3", output=Path("/x/job-12.out")),
            1,
            "n3 cannot write /x/job-12.out, name a folder that all nodes see with --out",
        ),
        (Status(state="CANCELLED", signal=15), 143, "was cancelled"),
        (Status(state="TIMEOUT"), 1, "ask for more --time"),
        (
            Status(state="OUT_OF_MEMORY", signal=125),
            1,
            "for want of memory: ask for more with --sb",
        ),
        (
            Status(state="NODE_FAIL", nodes="n3"),
            1,
            "lost a node of n3: send it again; with --requeue",
        ),
        (Status(state="PREEMPTED"), 1, "had to make room for another job"),
        (Status(state="DEADLINE"), 1, "did not end before its deadline"),
    ],
)
def test_how_a_job_ended(status: Status, code: int, sentence: str) -> None:
    error = failure(12, status)
    assert status.over
    assert error is not None
    assert error.exit_code == code
    assert str(error).startswith("job 12 ")
    assert sentence in str(error)


def test_a_job_that_ended_well() -> None:
    assert failure(12, Status(state="COMPLETED")) is None
