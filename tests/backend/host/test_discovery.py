"""Who shares a host is found out, not believed."""

import json
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
from torch.distributed import FileStore, HashStore, TCPStore

from ports import held_port
from steptime.backend.host import find_hosts, kernel
from steptime.backend.host.discovery import _partition
from steptime.errors import UsageError
from steptime.world import LostContactError

_MEET = """
import sys, json
from torch.distributed import TCPStore
from steptime.backend.host import HostGroup, Call, Kind, find_hosts
port, rank, ranks = map(int, sys.argv[1:])
store = TCPStore("127.0.0.1", port, ranks, rank == 0)
hosts = find_hosts(store, rank, ranks, 300.0)
group = HostGroup(store, hosts, 600.0)
group.barrier(Call.of(Kind.BARRIER))
store.set(f"done/{rank}", "")
store.wait([f"done/{other}" for other in range(ranks)])
group.close()
print(json.dumps([hosts.partition, hosts.members, group.rank]))
"""


def _isolating(*words: str) -> list[str]:
    """The command in a process namespace of its own, as in a container of its own."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *words]


def _can_isolate() -> bool:
    if not which("unshare"):
        return False
    return not subprocess.run(_isolating("true"), capture_output=True, check=False).returncode


@pytest.mark.skipif(not _can_isolate(), reason="namespaces of processes are not permitted here")
def test_ranks_that_do_not_see_each_others_memory_are_on_different_hosts() -> None:
    processes = []
    with held_port() as port:
        for rank in range(3):
            words = [sys.executable, "-c", _MEET, str(port), str(rank), "3"]
            command = _isolating(*words) if rank == 1 else words
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        try:
            outputs = [process.communicate(timeout=600)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    partition = [[0, 2], [1]]
    assert [json.loads(output) for output in outputs] == [
        [partition, [0, 2], 0],
        [partition, [1], 0],
        [partition, [0, 2], 1],
    ]


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
