"""Points of a sweep: the same whoever works them out, in order, and kept."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.points.cache import Cache
from steptime.points.codec import Pickled, Typed
from steptime.points.local import local_processes
from steptime.points.options import SweepOptions
from steptime.points.sweep import points


@dataclass(frozen=True)
class Half:
    """What a number comes to, and by whom."""

    value: float
    process: int
    threads: str | None


def halved(number: int) -> Half:
    if number < 0:
        raise UsageError(f"{number} is no number of ours")
    time.sleep(0.02 / (number + 1))  # those that are asked for first come last
    return Half(number / 2, os.getpid(), os.environ.get("OMP_NUM_THREADS"))


def dying(_: int) -> Half:
    os._exit(3)


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with local_processes(2) as executor:
        yield executor


@pytest.mark.parametrize("codec", [Typed(Half), Pickled()])
def test_processes_give_what_this_one_gives_in_order(processes: Executor, codec) -> None:
    alone = [done.result for done in points(halved, range(6), codec)]
    apart = [done.result for done in points(halved, range(6), codec, executor=processes)]
    assert [one.value for one in alone] == [one.value for one in apart]
    assert {one.process for one in alone} == {os.getpid()}
    assert os.getpid() not in {one.process for one in apart}
    assert {one.threads for one in apart} == {"1"}


def test_any_executor_will_do_and_functions_of_functions_travel(processes: Executor) -> None:
    threads = ThreadPoolExecutor(2)
    for executor in (threads, processes):
        found = points(lambda n: n**2, range(4), Pickled(), executor=executor)
        assert [done.result for done in found] == [0, 1, 4, 9]
    threads.shutdown()


def test_an_error_of_a_worker_is_what_it_was(processes: Executor) -> None:
    with pytest.raises(UsageError, match="-1 is no number of ours"):
        list(points(halved, [1, -1], Typed(Half), executor=processes))
    with pytest.raises(ZeroDivisionError):
        list(points(lambda n: 1 / n, [0], Pickled(), executor=processes))


def test_a_worker_that_dies_is_told() -> None:
    with (
        local_processes(1) as executor,
        pytest.raises(SteptimeError, match="a process of the sweep died"),
    ):
        list(points(dying, [1, 2], Typed(Half), executor=executor))


def test_what_cannot_travel_is_told_before_anything_starts() -> None:
    lock = Lock()
    with ThreadPoolExecutor(1) as executor, pytest.raises(UsageError, match="no other proc"):
        list(points(lambda _: lock, [1], Pickled(), executor=executor))


def test_processes_end_with_the_block_whatever_they_are_at() -> None:
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), local_processes(1) as executor:
        future = executor.submit(time.sleep, 600)
        while not future.running():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert time.monotonic() - start < 300


@pytest.mark.slow
def test_processes_end_though_they_are_sending_a_result() -> None:
    for attempt in range(10):  # 7 of 12 hung, where a worker left with a part of one sent
        with pytest.raises(KeyboardInterrupt), local_processes(2) as executor:
            sent = [executor.submit(bytes, 300_000) for _ in range(200)]
            sent[0].result()
            time.sleep(attempt * 0.003)
            raise KeyboardInterrupt


def test_points_are_kept_as_they_are_done_and_not_worked_out_again(tmp_path: Path) -> None:
    seen: list[int] = []

    def work(number: int) -> int:
        seen.append(number)
        if number == 2:
            raise KeyboardInterrupt
        return number

    cache = Cache(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        list(points(work, range(4), Typed(int), cache=cache, named="ours"))
    again = points(lambda n: n, range(4), Typed(int), cache=cache, named="ours")
    assert [(one.result, one.kept) for one in again] == [
        (0, True),
        (1, True),
        (2, False),
        (3, False),
    ]
    assert seen == [0, 1, 2]


def test_another_function_or_identity_is_another_point(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    list(points(halved, [1], Typed(Half), cache=cache))
    kept = points(halved, [1], Typed(Half), cache=cache)
    assert [one.kept for one in kept] == [True]
    for other in (
        points(dying, [], Typed(Half), cache=cache),
        points(halved, [1], Typed(Half), cache=cache, named="another"),
        points(halved, [1], Typed(Half), cache=cache, identities=lambda n: (n, "elsewhere")),
    ):
        assert not any(one.kept for one in other)


@pytest.mark.parametrize("damage", [b"", b"x", b"steptime point 1 \n", None])
def test_a_damaged_point_is_worked_out_again(damage: bytes | None, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    list(points(halved, [5], Typed(Half), cache=cache))
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] if damage is None else damage)
    (done,) = points(halved, [5], Typed(Half), cache=cache)
    assert (done.kept, done.result.value) == (False, 2.5)
    assert file.read_bytes() == whole


def test_what_is_kept_of_another_type_is_worked_out_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    list(points(len, ["four"], Typed(int), cache=cache))
    (done,) = points(halved, [4], Typed(Half), cache=cache, identities=lambda _: "four")
    assert not done.kept
    (file, _) = tmp_path.iterdir()
    assert cache.get(file.stem) is not None
    cache.put(file.stem, Typed(str).encode("no number"))
    again = [*points(len, ["four"], Typed(int), cache=cache)]
    assert again[0].result == 4


def test_a_folder_that_cannot_be_trusted_or_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match="other users may write to"):
        Cache(tmp_path / "open")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot keep points in .*file: File exists"):
        Cache(tmp_path / "file")


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        ("0", "--jobs is 0: it must be at least 1"),
        ("1025", "--jobs is 1025: it must be at most 1,024"),
        ("many", "--jobs is 'many': write a number, as 4, or slurm:64"),
        ("-1", "--jobs is '-1'"),
        ("slurm:", "--jobs is 'slurm:'"),
        ("slurm:4", "--jobs slurm:4 needs --cache"),
    ],
)
def test_bad_jobs_are_one_sentence(jobs: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        SweepOptions(jobs=jobs)


def test_one_job_is_this_process() -> None:
    with SweepOptions().executor() as executor:
        assert executor is None
