"""Hosts that this machine emulates: real namespaces, real packets, real signals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

import steptime as st
from steptime.errors import UsageError

CLUSTER = """
title = "Hosts for tests"
source = "a test"
[device]
name = "a core"
flops = { fp32 = "1GFLOP/s" }
memory = "1GB"
memory_bandwidth = "1GB/s"
[host]
count = 3
devices = 2
[inside]
kind = "switch"
bandwidth = "1GB/s"
latency = "0us"
[nic]
bandwidth = "8MB/s"
latency = "0us"
[network]
kind = "switch"
"""
RATE = 8e6
POSSIBLE = subprocess.run(
    ["unshare", "--user", "--map-root-user", "--net", "ip", "link", "add", "type", "veth"],
    capture_output=True,
    check=False,
)
pytestmark = pytest.mark.skipif(
    POSSIBLE.returncode != 0, reason="making a network namespace is not permitted here"
)
STEPTIME = [sys.executable, "-m", "steptime"]
MPIEXEC = which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("cluster") / "three.toml"
    file.write_text(CLUSTER)
    return str(file)


def emulate(
    cluster: str, *words: str, options: str = "", faults: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(*STEPTIME, "emulate", cluster, *options.split(), "--faults", faults, "--json"),
            *("--", *words),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """The JSON object on the last line of stderr."""
    return dict(json.loads(done.stderr.splitlines()[-1]))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_hosts_differ_in_all_that_tells_hosts_apart(cluster: str) -> None:
    look = (
        "hostname; cat /etc/machine-id; cat /proc/sys/kernel/random/boot_id;"
        "ls -A /dev/shm | wc -l; readlink /proc/self/ns/ipc; touch /dev/shm/mine"
    )
    twice = f"sh -c '{look}'"
    done = emulate(cluster, "sh", "-c", f'{twice}; ssh -l me host2 "{look}"')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    here, there = lines[:5], lines[5:]
    assert (here[0], there[0]) == ("host0", "host2")
    assert here[3] == there[3] == "0"  # what one puts there the other does not see
    assert all(here[at] != there[at] for at in (1, 2, 4))
    assert not Path("/dev/shm/mine").exists()


@pytest.mark.slow
def test_hosts_have_the_congestion_control_that_is_asked_for(cluster: str) -> None:
    files = "/proc/sys/net/ipv4/tcp_congestion_control /proc/sys/net/ipv4/tcp_limit_output_bytes"
    ran = emulate(cluster, "sh", "-c", f"cat {files}", options="--congestion-control reno")
    control, limit = ran.stdout.split()
    assert control == "reno" == answer(ran)["congestion_control"]
    assert 1e4 < int(limit) < 1e5


@pytest.mark.slow
def test_the_backend_takes_all_rails_of_a_host_and_each_carries_its_share(tmp_path: Path) -> None:
    """Rank 2, on host1, gets 4 MB from rank 0 over two rails of 8 MB/s: half on each, in 0.25 s."""
    file = tmp_path / "rails.toml"
    file.write_text(CLUSTER.replace("[nic]", "[nic]\nper_host = 2"))
    code = (
        "import os, time, torch, torch.distributed as dist, steptime.backend\n"
        "def carried(n):\n"
        "    return int(open('/proc/net/dev').read().split(f'eth{n}:')[1].split()[0])\n"
        "dist.init_process_group('steptime')\n"
        "vector = torch.full((1_000_000,), 1.5 - dist.get_rank())\n"
        "before, begin = [carried(0), carried(1)], time.monotonic()\n"
        "dist.barrier()\n"  # only now may anything be sent
        "if dist.get_rank() == 0: dist.send(vector, 2)\n"
        "if dist.get_rank() == 2:\n"
        "    dist.recv(vector, 0)\n"
        "    took, names = time.monotonic() - begin, os.environ['STEPTIME_SOCKET_IFNAME']\n"
        "    got = [carried(n) - before[n] for n in (0, 1)]\n"
        "    print(vector.unique().tolist(), *got, took, names)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()"
    )
    done = emulate(str(file), *python(code), options="--rails 2 --ranks 4")
    assert done.returncode == 0, done.stderr
    values, *got, took, names = done.stdout.split()
    assert (values, names) == ("[1.5]", "eth0,eth1")
    assert all(2e6 < int(each) < 2.2e6 for each in got)
    assert float(took) > 0.9 * 4e6 / (2 * 2 * RATE)
    assert answer(done)["rails"] == 2
    refused = emulate(str(file), "true", options="--rails 3")
    assert "which have 2 NICs: ask for 1 to 2" in refused.stderr


def test_a_command_is_started_as_every_rank(cluster: str) -> None:
    told = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]
    code = (
        "import os, platform, sys; words = [*map(os.environ.get, "
        f"{told}), platform.node()]; sys.stdout.write(' '.join(words) + chr(10))"
    )
    done = emulate(cluster, *python(code), options="--ranks 5")
    assert sorted(done.stdout.splitlines()) == [
        "0 5 0 2 host0 host0",
        "1 5 1 2 host0 host0",
        "2 5 0 2 host0 host1",
        "3 5 1 2 host0 host1",
        "4 5 0 1 host0 host2",
    ]


@pytest.mark.slow
def test_launchers_start_ranks_on_all_hosts(cluster: str, tmp_path: Path) -> None:
    script = tmp_path / "who.py"
    script.write_text(
        "import os, platform, sys\nenv = os.environ\n"
        'sys.stdout.write(f\'{env["RANK"]} {env["WORLD_SIZE"]} {platform.node()}\\n\')'
    )
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    done = emulate(cluster, torchrun, str(script), options="--ranks 4")
    assert sorted(done.stdout.splitlines()) == ["0 4 host0", "1 4 host0", "2 4 host1", "3 4 host1"]
    if MPIEXEC:
        # MPICH's dies of SIGPIPE where rank 0 has ended before it is told that its input has.
        script = tmp_path / "who.sh"
        script.write_text("if [ $PMI_RANK = 0 ]; then cat; fi; hostname")
        done = emulate(cluster, "sh", "-c", f"{MPIEXEC} -n 6 sh {script}")
        assert sorted(done.stdout.split()) == ["host0"] * 2 + ["host1"] * 2 + ["host2"] * 2


SEND = """
import socket, subprocess, sys, time
N = 4_000_000
if len(sys.argv) > 1:
    with socket.create_connection(("host0", 5000), timeout=60) as to:
        to.sendall(bytes(N))
else:
    server = socket.create_server(("", 5000))
    other = subprocess.Popen(["ssh", "host1", sys.executable, sys.argv[0], "send"])
    came, _ = server.accept()
    began, got = time.perf_counter(), 0
    while piece := came.recv(1 << 20):
        got += len(piece)
    print(got, time.perf_counter() - began)
"""


def test_links_are_shaped_and_their_bytes_counted(cluster: str, tmp_path: Path) -> None:
    script = tmp_path / "send.py"
    script.write_text(SEND)
    words = ["sh", "-c", f"{sys.executable} {script}"]
    done = emulate(cluster, *words, options="--time-dilation 2")
    got, seconds = map(float, done.stdout.split())
    assert got == 4e6
    assert seconds > 0.9 * got / (RATE / 2)  # a busy machine makes it longer, none shorter
    found = answer(done)
    crossed = {one["name"]: one["bytes"] for one in found["bytes_by_link"]}
    assert 4e6 < crossed["host1 → switch"] < 4.4e6
    assert 4e6 < crossed["switch → host0"] < 4.4e6
    assert crossed["host2 → switch"] < 1e5
    assert (found["hosts"], found["status"], found["started"]) == (3, 0, "once")


@pytest.mark.slow
def test_the_exit_status_is_the_commands(cluster: str) -> None:
    assert emulate(cluster, "sh", "-c", "exit 7").returncode == 7
    assert emulate(cluster, "sh", "-c", "kill -9 $$").returncode == 137
    # The others sleep, and end with the one that fails.
    code = "import os, sys, time; time.sleep(600 * (os.environ['RANK'] != '3')); sys.exit(3)"
    assert emulate(cluster, *python(code), options="--ranks 5").returncode == 3


@pytest.mark.slow
def test_what_cannot_be_done_is_one_sentence(cluster: str, tmp_path: Path) -> None:
    fast = tmp_path / "fast.toml"
    fast.write_text(CLUSTER.replace("8MB/s", "900GB/s"))
    for words, options, said in (
        ([cluster, "no-such-program"], "", "cannot start no-such-program: No such file"),
        ([cluster, "true"], "--ranks 99", "99 ranks do not fit on three"),
        ([cluster, "true"], "--time-dilation 1000", "would be of 8.00 kB/s, and less than"),
        ([str(fast), "true"], "", "give --time-dilation "),
        ([cluster, "true"], "--ranks 2", "2 ranks are all on one host of three"),
        (["laptop", "true"], "", "laptop is one host and has no network to emulate"),
        (["h100-16384", "true"], "--ranks 1024", "links of 128 hosts carry"),
        ([cluster, "true"], "--faults host9_down_at_1s", "write, with semicolons between"),
    ):
        options, _, faults = options.partition("--faults ")
        done = emulate(words[0], *words[1:], options=options, faults=faults)
        assert done.returncode in (1, 2), said
        (line,) = [one for one in done.stderr.splitlines() if one.startswith("steptime: ")]
        assert said in line
    missing = subprocess.run(
        [*STEPTIME, "on", "host1", "--", "true"], capture_output=True, text=True, check=False
    )
    assert "this is no host of an emulated cluster" in missing.stderr


def test_sigterm_reaches_the_command(cluster: str) -> None:
    command = [*STEPTIME, "emulate", cluster, "--quiet", "--", "sh", "-c"]
    trap = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen([*command, trap], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.read() == "told\n"
    assert process.returncode == 5


def below(mark: str) -> Iterator[int]:
    """The processes that have ``mark`` in their environment."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                if mark.encode() in (process / "environ").read_bytes():
                    yield int(process.name)
            except OSError:
                continue


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    "after_s", [0.0, 0.6, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.3, 1.2))]
)
def test_nothing_remains_whenever_it_is_killed(
    cluster: str, number: signal.Signals, after_s: float
) -> None:
    mark = f"EMULATED_BY_TEST={os.getpid()}-{number}-{after_s}"
    name, _, value = mark.partition("=")
    interfaces = Path("/proc/net/dev").read_text().count("\n")
    process = subprocess.Popen(
        [*STEPTIME, "emulate", cluster, "--quiet", "--", "sleep", "600"],
        env=os.environ | {name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after_s)
    process.send_signal(number)
    process.wait(60)
    deadline = time.monotonic() + 60
    while (left := list(below(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    assert Path("/proc/net/dev").read_text().count("\n") == interfaces


UNTIED = """
import sys
from steptime.cli import main
from steptime.emulate import namespaces
namespaces._DIES_WITH_US = ()
sys.exit(main())
"""
"""The command, whose end the system does not tell to what it starts, as in its first moment."""


def test_nothing_remains_of_one_that_is_killed_as_it_begins(cluster: str) -> None:
    mark = f"EMULATED_BY_TEST={os.getpid()}-untied"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        [sys.executable, "-c", UNTIED, "emulate", cluster, "--quiet", "--", "sleep", "600"],
        env=os.environ | {name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while len(list(below(mark))) < 6 and time.monotonic() < deadline:  # the hosts, and more
        time.sleep(0.05)
    process.kill()
    process.wait(60)
    while (left := list(below(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


ASK = """
import socket, subprocess, sys, time
if len(sys.argv) > 1:
    with socket.create_server(("", 5000)) as server:
        while True:
            server.accept()[0].close()
def reached():
    try:
        socket.create_connection(("host1", 5000), timeout=0.2).close()
    except OSError:
        return False
    return True
server = subprocess.Popen(["ssh", "host1", sys.executable, sys.argv[0], "serve"])
for wanted in (True, False, True):
    deadline = time.monotonic() + 60
    while reached() != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    print(reached() == wanted)
server.kill()
"""


@pytest.mark.slow
def test_a_host_is_cut_off_and_comes_back(cluster: str, tmp_path: Path) -> None:
    script = tmp_path / "ask.py"
    script.write_text(ASK)
    done = emulate(
        cluster, "sh", "-c", f"{sys.executable} {script}", faults="host1 down at 8s for 4s"
    )
    assert done.stdout.split() == ["True"] * 3, done.stderr
    (fault,) = answer(done)["faults"]
    assert fault["what"] == "host1 cut off"
    assert fault["until_s"] - fault["at_s"] > 3.9


COUNT = """
import socket, subprocess, sys
if len(sys.argv) > 1:
    with socket.socket(type=socket.SOCK_DGRAM) as to:
        for n in range(400):
            to.sendto(bytes(10), ("host0", 5000))
        import time; time.sleep(0.5)
        for n in range(40):
            to.sendto(b"end", ("host0", 5000))
else:
    with socket.socket(type=socket.SOCK_DGRAM) as at:
        at.bind(("", 5000))
        subprocess.Popen(["ssh", "host1", sys.executable, sys.argv[0], "send"])
        got = 0
        while at.recv(100) != b"end":
            got += 1
        print(got)
"""


@pytest.mark.slow
@pytest.mark.skipif(not which("nft", path="/usr/sbin:/sbin:/usr/bin"), reason="nft is missing")
def test_packets_are_lost(cluster: str, tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(COUNT)
    done = emulate(
        cluster, "sh", "-c", f"sleep 0.2; {sys.executable} {script}", faults="loss host0 25% at 0s"
    )
    assert 200 < int(done.stdout) < 380, done.stderr  # of 400; 300 are the most likely


def test_python_runs_a_command_on_emulated_hosts_and_learns_what_crossed(cluster: str) -> None:
    sends = """
import os, socket, time
rank = int(os.environ["RANK"])
if rank == 2:
    with socket.create_server(("", 9)) as server:
        taken, _ = server.accept()
        while taken.recv(1 << 16):
            pass
while rank == 0:
    try:
        socket.create_connection(("host1", 9)).sendall(bytes(400_000))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
raise SystemExit(3 * (rank == 2))
"""
    told: list[str] = []
    found = st.emulate(
        cluster, sys.executable, "-c", sends, ranks=3, start="ranks", tell=told.append
    )
    assert found.status == 3
    assert "2 hosts" in told[0]
    assert 400_000 < found.bytes_by_link["host0 → switch"] < 500_000
    assert "crossed the links" in repr(found)
    assert found.record["status"] == 3
    with pytest.raises(UsageError, match="no network"):
        st.emulate("laptop", "true")
