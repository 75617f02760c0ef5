"""A baton among jobs: one works at a time, in the order that all of them know."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steptime.world.baton import Baton, batons

TURNS = ["a", "b", "b", "a", "b", "a"]


def test_jobs_work_in_the_order_of_their_turns(tmp_path: Path) -> None:
    heard: list[str] = []

    def rank(job: str, number: int) -> None:
        baton = Baton(tmp_path, TURNS, job, number)
        for _ in range(TURNS.count(job)):
            with baton:
                if number == 0:
                    heard.append(job)

    with ThreadPoolExecutor(3) as pool, batons(tmp_path, {"a": 1, "b": 2}, "a"):
        # Rank 1 of b is behind its rank 0 or ahead of it: it has a FIFO of its own.
        done = [pool.submit(rank, job, number) for job, number in (("b", 0), ("b", 1), ("a", 0))]
        for one in done:
            one.result(timeout=600)
    assert heard == TURNS


def test_a_job_that_fails_passes_nothing_on(tmp_path: Path) -> None:
    with batons(tmp_path, {"a": 1, "b": 1}, "a"):
        with pytest.raises(OSError), Baton(tmp_path, ["a", "b"], "a", 0):
            raise OSError
        waiting = Path(tmp_path / "b.0").open("rb", buffering=0)  # noqa: SIM115
        os.set_blocking(waiting.fileno(), False)
        assert waiting.read(1) is None
        waiting.close()
