"""Who shares a host is found out, not believed."""

import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from shutil import which

import pytest
from torch.distributed import FileStore, HashStore, TCPStore

from backend.host.meeting import meet
from ranks import FORKED
from steptime.backend.host import find_hosts, kernel
from steptime.backend.host.discovery import _partition
from steptime.errors import UsageError
from steptime.world import LostContactError


def _isolating(*words: str) -> list[str]:
    """The command in a process namespace of its own, as in a container of its own."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *words]


def _can_isolate() -> bool:
    if not which("unshare"):
        return False
    return not subprocess.run(_isolating("true"), capture_output=True, check=False).returncode


@pytest.mark.slow
@pytest.mark.skipif(not _can_isolate(), reason="namespaces of processes are not permitted here")
def test_ranks_that_do_not_see_each_others_memory_are_on_different_hosts(tmp_path: Path) -> None:
    script, store = str(Path(__file__).with_name("meeting.py")), str(tmp_path / "store")
    words = _isolating(sys.executable, script, store, "1", "3")
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as apart,
        ProcessPoolExecutor(2, FORKED) as pool,
    ):
        try:
            together = [pool.submit(meet, store, rank, 3) for rank in (0, 2)]
            found = [rank.result(timeout=600) for rank in together]
            output = apart.communicate(timeout=600)[0]
        finally:
            apart.kill()
    partition = ((0, 2), (1,))
    assert found == [[partition, (0, 2), 0], [partition, (0, 2), 1]]
    assert json.loads(output) == [[[0, 2], [1]], [1], 0]


def test_seeing_must_be_mutual() -> None:
    assert _partition([{0, 1, 2}, {0, 1, 2}, {0, 1, 2}]) == ((0, 1, 2),)
    assert _partition([{0, 2}, {1, 3}, {0, 2}, {1, 3}]) == ((0, 2), (1, 3))
    assert _partition([{0, 1, 2}, {0, 1}, {0, 1, 2}]) == ((0, 1), (2,))
    assert _partition([{0, 1}, {1}]) == ((0,), (1,))


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_other_processors_are_refused_without_c(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setenv(kernel.VARIABLE, "python")
    with pytest.raises(UsageError, match=f"this machine is {machine}: install gcc"):
        find_hosts(HashStore(), 0, 1, 60.0)
    if kernel.is_built():
        monkeypatch.setenv(kernel.VARIABLE, "c")
        assert find_hosts(HashStore(), 0, 1, 60.0).members == (0,)


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_a_rank_that_never_comes_is_named(kind: str, tmp_path: Path) -> None:
    store = (
        FileStore(str(tmp_path / "store"), 2)
        if kind == "file"
        else TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
    )
    with pytest.raises(LostContactError, match="rank 1 did not join the group"):
        find_hosts(store, 0, 2, 0.2)
