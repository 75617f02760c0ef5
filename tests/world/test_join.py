"""Joining and leaving, with real processes, and every way in which ranks fail to meet."""

import os
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from forked import forked_python
from ports import held_port
from steptime.errors import UsageError
from steptime.world import SINGLE, LostContactError, World
from steptime.world.rendezvous import rendezvous

WORLD = World(
    rank=1, size=2, local_rank=1, local_size=2, launcher="mpirun", address="127.0.0.1", port=0
)
"""Its rank 0 never comes, unless a test plays it."""

JOIN = """
import ast, sys
from steptime.errors import SteptimeError
from steptime.world import World
import torch
import torch.distributed as dist
from steptime.world.join import joined

def work():
    {work}

if sys.argv[2:]:
    import os, pathlib, time
    ready = pathlib.Path(sys.argv[2])
    (ready / str(os.getpid())).touch()
    while len(list(ready.iterdir())) < 2:
        time.sleep(0.01)

try:
    world = World(**ast.literal_eval(sys.argv[1]))
    with joined(world, "{backend}", threads=1, timeout_s={timeout}):
        work()
except SteptimeError as error:
    print(f"{{type(error).__name__}}: {{error}}", end="", flush=True)
    import os
    os._exit(error.exit_code)
"""


@pytest.fixture
def port():
    """A port on which nobody listens."""
    with held_port() as port:
        yield port


def program(work: str, backend: str = "gloo", timeout_s: float = 600) -> str:
    """What a rank runs."""
    return JOIN.format(work=work, backend=backend, timeout=timeout_s)


def ended(
    folder: Path, work: str, *worlds: World, backend: str = "gloo", timeout_s: float = 600
) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of ranks that do the same, each of its world, at a time."""
    code = program(work, backend, timeout_s)

    def rank(world: World) -> tuple[int, str, str]:
        done = forked_python("-c", code, repr(vars(world)), folder=folder)
        return done.code, done.out, done.err

    with ThreadPoolExecutor() as ranks:
        return list(ranks.map(rank, worlds))


def start(world: World, work: str, ready: Path) -> subprocess.Popen:
    """A rank that can be killed, and waits in the folder ``ready`` for the other to join."""
    return subprocess.Popen(
        [sys.executable, "-c", program(work, timeout_s=15), repr(vars(world)), ready],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_single_rank_joins_like_many(tmp_path) -> None:
    work = "x = torch.ones(3); dist.all_reduce(x); print(x.sum(), torch.get_num_threads())"
    assert ended(tmp_path, work, SINGLE) == [(0, "tensor(3.) 1\n", "")]


def test_ranks_that_know_a_port_meet_there(port, tmp_path) -> None:
    world = replace(WORLD, port=port)
    work = "x = torch.ones(()); dist.all_reduce(x); print(x)"
    ranks = replace(world, rank=0, local_rank=0), world
    assert ended(tmp_path, work, *ranks) == [(0, "tensor(2.)\n", "")] * 2


def test_a_port_in_use_is_a_usage_error() -> None:
    with socket.create_server(("", 0)) as taken:
        world = replace(WORLD, rank=0, port=taken.getsockname()[1])
        with (
            pytest.raises(
                UsageError, match=r"rank 0 cannot listen on port \d+ of .* in use\): set"
            ),
            rendezvous(world, 1),
        ):
            pass


@pytest.mark.parametrize(
    ("address", "reason"),
    [("127.0.0.1", "Connection refused"), ("no-such-host.invalid", "[Nn]ame")],
)
def test_a_rank_0_out_of_reach_is_told_with_the_address(address, reason, port) -> None:
    world = replace(WORLD, local_size=1, local_rank=0, address=address, port=port)
    sentence = rf"^rank 1 did not reach rank 0 at {address}:{port} within 0.5 s \(.*{reason}"
    with pytest.raises(LostContactError, match=sentence), rendezvous(world, 0.5):
        pass


def test_a_port_that_accepts_and_says_nothing_does_not_hang_a_rank(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        [(code, output, _)] = ended(tmp_path, "pass", replace(WORLD, port=port), timeout_s=1)
    assert (code, output.partition(" within")[0]) == (
        1,
        f"LostContactError: rank 1 got no answer from rank 0 at 127.0.0.1:{port}",
    )


def test_ranks_that_do_not_come_are_named(tmp_path) -> None:
    world = replace(WORLD, rank=0, local_rank=0, size=4, local_size=4)
    [(code, output, errors)] = ended(tmp_path, "pass", world, timeout_s=1)
    assert (code, errors) == (1, "")
    assert output.startswith("LostContactError: of 4 ranks, rank 1, 2, 3 did not join within 1 s")


@pytest.mark.slow
def test_nccl_without_a_gpu_for_every_rank_is_a_usage_error(tmp_path) -> None:
    world = replace(SINGLE, size=10_000, rank=9_999, local_rank=9_999, local_size=10_000)
    [(code, output, _)] = ended(tmp_path, "pass", world, backend="nccl")
    assert code == 2
    assert output.startswith("UsageError: the backend nccl needs a GPU for every rank, and local ")


def test_an_interface_that_is_not_there_is_one_sentence(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere0")
    [(code, output, _)] = ended(tmp_path, "pass", SINGLE)
    assert code == 1
    assert output.startswith("SteptimeError: rank 0 could not connect to the other ranks by gloo (")
    assert "GLOO_SOCKET_IFNAME" in output


@pytest.mark.parametrize(
    ("rank_0", "sentence"),
    [
        ("import os; os._exit(3)", "rank 1 lost contact: another rank died"),
        pytest.param(
            "import time; time.sleep(600)",
            "rank 1 waited 15 s for another rank, which hangs or runs an",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_loss_of_another_rank_is_told_as_such(rank_0, sentence, port, tmp_path) -> None:
    world = replace(WORLD, port=port)
    zero = start(replace(world, rank=0, local_rank=0), rank_0, tmp_path)
    one = start(world, "dist.all_reduce(torch.ones(9))", tmp_path)
    try:
        output, _ = one.communicate(timeout=600)
    finally:
        for rank in (zero, one):
            rank.kill()
            rank.communicate()
    assert (one.returncode, output[: len(sentence) + 18]) == (1, f"LostContactError: {sentence}")


def test_another_exception_passes_through_a_join(tmp_path) -> None:
    [(code, _, errors)] = ended(tmp_path, "raise RuntimeError('a mistake')", SINGLE)
    assert code == 1
    assert errors.endswith("RuntimeError: a mistake\n")


def test_mpi_ranks_of_one_host_meet_through_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    world = replace(WORLD, address=None, port=None)
    with rendezvous(replace(world, rank=0), 300) as zero, rendezvous(world, 300) as one:
        assert (one.address, one.port) == ("127.0.0.1", zero.port)
        [file] = tmp_path.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        # Behind it the moment that process began, where this user may read of it.
        assert file.name.startswith(f"steptime-{os.getuid()}-{os.getppid()}")
    assert not list(tmp_path.iterdir())
    with pytest.raises(LostContactError, match="rank 1 did not find the port of rank 0 in"):
        rendezvous(world, 0.1).__enter__()


def test_mpi_ranks_do_not_trust_the_file_of_another_user(tmp_path, monkeypatch) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    world = replace(WORLD, address=None, port=None)
    with rendezvous(replace(world, rank=0), 300):
        [file] = tmp_path.iterdir()
        os.chown(file, 12345, -1)
        with pytest.raises(LostContactError, match="did not find"):
            rendezvous(world, 0.1).__enter__()
