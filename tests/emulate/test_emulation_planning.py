"""What stands in for a cluster: hosts, ranks, rates, how commands are started, faults."""

from pathlib import Path

import pytest

from steptime.cluster import cluster_named
from steptime.emulate import tcp
from steptime.emulate.ceiling import check_ceiling
from steptime.emulate.faults import Fault, parse_faults
from steptime.emulate.planning import plan_of, start_of
from steptime.emulate.processes import wanted
from steptime.errors import UsageError


def test_a_plan_has_the_clusters_hosts_ranks_and_rates() -> None:
    plan = plan_of(cluster_named("marenostrum5-nine"), ["true"], dilation=50)
    # The workers come first, the server is alone on host 0.
    assert {host.name: host.ranks for host in plan.hosts} == {
        "host0": (8,),
        "host1": (0, 1),
        "host2": (2, 3),
        "host3": (4, 5),
        "host4": (6, 7),
    }
    assert plan.world_size == 9
    assert all(host.out.rate == host.back.rate == 200e6 for host in plan.hosts)
    assert plan.notes == ()
    some = plan_of(cluster_named("marenostrum5-nine"), ["true"], ranks=4)
    assert [host.name for host in some.hosts] == ["host1", "host2"]


def test_what_is_not_emulated_is_told() -> None:
    plan = plan_of(cluster_named("dgx-h100-pod:hosts=2"), ["true"], dilation=1000)
    assert plan.hosts[0].out.rate == 8 * 48e9 / 1000  # all NICs of a host together
    assert [note.split()[0:2] for note in plan.notes] == [["Of", "the"], ["The", "8"]]


def test_tcp_is_not_what_this_machine_happens_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = tmp_path / "allowed"
    monkeypatch.setattr(tcp, "_ALLOWED", allowed)
    for text, usual in (("reno bbr\n", "reno"), ("reno cubic\n", "cubic"), ("bbr\n", "bbr")):
        allowed.write_text(text)
        assert tcp.congestion_control() == usual
    allowed.write_text("reno bbr\n")
    assert tcp.congestion_control("bbr") == "bbr"
    with pytest.raises(UsageError, match="--congestion-control cubic is none"):
        plan_of(cluster_named("office-10gbe:hosts=2"), ["true"], congestion="cubic")


def test_a_connection_may_queue_little_and_links_are_never_idle() -> None:
    cluster = cluster_named("office-10gbe:hosts=2")
    for dilation in (1.0, 50.0):
        (host, _) = plan_of(cluster, ["true"], dilation=dilation).hosts
        found = tcp.settings(host, "reno", dilation)
        assert int(found["tcp_limit_output_bytes"]) == host.out.at_once == 2 * host.out.burst
        assert ("tcp_slow_start_after_idle" in found) == (dilation > 1)


@pytest.mark.parametrize(
    ("command", "start"),
    [
        ("torchrun train.py", "hosts"),
        ("python -m torch.distributed.run train.py", "hosts"),
        ("/usr/bin/mpirun -n 4 a.out", "once"),
        ("bash", "once"),
        ("python train.py", "ranks"),
        ("steptime bench all_reduce", "ranks"),
        ("", "once"),
    ],
)
def test_how_often_a_command_is_started(command: str, start: str) -> None:
    assert start_of(command.split()) == start


def test_faults_are_read_in_the_order_of_their_times() -> None:
    text = "link host1 rate/10 at 20s; host3 down at 10s for 5s ;loss host2 1.5% at 500ms"
    assert parse_faults(text) == (
        Fault("loss", "host2", 0.5, None, 0.015),
        Fault("down", "host3", 10.0, 5.0),
        Fault("rate", "host1", 20.0, None, 10.0),
    )
    assert parse_faults("") == ()
    for wrong in ("host3 up at 1s", "link host1 rate/0.5 at 1s", "loss host2 1 at 1s", "down"):
        with pytest.raises(UsageError):
            parse_faults(wrong)
    with pytest.raises(UsageError, match="--faults names host9, and the hosts are host0 to host4"):
        plan_of(cluster_named("marenostrum5-nine"), faults=parse_faults("host9 down at 1s"))


def test_more_than_the_machine_moves_is_refused_with_what_would_do() -> None:
    plan = plan_of(cluster_named("office-10gbe:hosts=4"), ["true"])
    with pytest.raises(UsageError, match="give --time-dilation 10 or more"):
        check_ceiling(plan, 1e9)  # 4.7 GB/s of at most 0.6
    check_ceiling(plan_of(cluster_named("office-10gbe:hosts=4"), ["true"], dilation=10), 1e9)


def test_ranks_meet_on_the_host_of_rank_0() -> None:
    plan = plan_of(cluster_named("marenostrum5-nine"), ["python"])
    environs = {int(one.environ["RANK"]): one for one in wanted(plan)}
    assert sorted(environs) == list(range(9))
    assert {one.environ["MASTER_ADDR"] for one in environs.values()} == {"host1"}
    assert environs[8].host.name == "host0"
    agents = [*wanted(plan_of(cluster_named("marenostrum5-nine"), ["torchrun"]))]
    assert [one.host.name for one in agents] == ["host1", "host2", "host3", "host4", "host0"]
    assert [one.environ["PET_NODE_RANK"] for one in agents] == ["0", "1", "2", "3", "4"]
