"""Which host's link is slower in one run than in another, by what was sent between hosts."""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from runs_made import training
from steptime.report.diff_lines import sentences
from steptime.runs.host_links import HostLink, host_links
from steptime.study.diff import diff
from steptime.study.diff_runs import read_run
from steptime.study.slowed_links import slowed_links, slowed_record
from steptime.world.wire import Flow, flows

MANY = 8 << 20  # bytes


def ring(hosts: str, rates: Mapping[str, float], *, most: float = 8e6) -> list[HostLink]:
    """Every host has sent to the next; a message is as fast as the slower of both links."""
    pairs = zip(hosts, hosts[1:] + hosts[:1], strict=True)
    return [
        HostLink(
            src=a, dst=b, bytes=MANY, busy_s=MANY / min(rates.get(a, most), rates.get(b, most))
        )
        for a, b in pairs
    ]


def named(links: Iterable[object]) -> list[tuple[str, ...]]:
    return [link.hosts for link in links]  # type: ignore[attr-defined]


@pytest.mark.parametrize("hosts", ["abc", "abcd", "abcdefgh"])
@pytest.mark.parametrize("factor", [2.0, 4.0, 10.0])
def test_the_host_is_named_whose_every_message_is_slower(hosts: str, factor: float) -> None:
    (found,) = slowed_links(ring(hosts, {}), ring(hosts, {"b": 8e6 / factor}))
    assert found.hosts == ("b",)
    assert found.factor == pytest.approx(factor)
    assert (found.fast, found.slow) == pytest.approx((8e6, 8e6 / factor))


def test_two_slow_links_of_four_are_both_named() -> None:
    found = slowed_links(ring("abcdef", {}), ring("abcdef", {"b": 2e6, "e": 1e6}))
    assert named(found) == [("b",), ("e",)]


def test_of_two_hosts_the_way_between_them_is_named() -> None:
    (found,) = slowed_links(ring("ab", {}), ring("ab", {"a": 2e6}))
    assert found.hosts == ("a", "b")


def test_nothing_is_named_where_all_is_slower_alike_or_little_is() -> None:
    assert slowed_links(ring("abc", {}), ring("abc", {}, most=2e6)) == []
    assert slowed_links(ring("abc", {}), ring("abc", {"b": 6e6})) == []  # 1.3 times
    assert slowed_links([], ring("abc", {"b": 1e6})) == []
    few = [HostLink(src=a, dst=b, bytes=9, busy_s=1.0) for a, b in ("ab", "bc", "ca")]
    assert slowed_links(ring("abc", {}), few) == []


def test_the_record_says_in_which_run_it_is_slower() -> None:
    calm, slow = ring("abc", {}), ring("abc", {"c": 1e6})
    (forth,), (back,) = slowed_record(calm, slow), slowed_record(slow, calm)
    assert (forth.pop("slower_in"), back.pop("slower_in")) == ("b", "a")
    assert forth == back
    assert forth["hosts"] == ("c",)


def test_diff_tells_the_host_and_both_rates(tmp_path: Path) -> None:
    runs = [
        training(tmp_path / name, [step_s] * 30, host_links=[asdict(link) for link in links])
        for name, step_s, links in (
            ("calm", 0.1, ring("abc", {})),
            ("slow", 0.3, ring("abc", {"b": 2e6})),
        )
    ]
    a, b = ([read_run(run, None)] for run in runs)
    told = (
        "The link of b is 4.0 times slower in B: a connection that crosses it carries 2.00 MB/s "
        "while it sends, and 8.00 MB/s in A."
    )
    assert told in list(sentences(diff(a, b).record()))
    back = told.replace("in A.", "in B.").replace("slower in B", "slower in A")
    assert back in list(sentences(diff(b, a).record()))


def test_connections_of_ranks_add_up_by_pair_of_hosts() -> None:
    def flow(here: str, there: str, count: int) -> Flow:
        return Flow(here=here, there=there, acknowledged=count, busy_s=count / 100)

    ranks = [
        ("a", [flow("10.0.0.1", "10.0.0.2", 100), flow("127.0.0.1", "127.0.0.1", 7)]),
        ("a", [flow("10.0.0.1", "10.0.0.2", 300), flow("10.0.0.1", "10.9.9.9", 5)]),
        ("b", [flow("10.0.0.2", "10.0.0.1", 50)]),
    ]
    assert host_links(ranks) == [
        HostLink(src="a", dst="b", bytes=400, busy_s=4.0),
        HostLink(src="b", dst="a", bytes=50, busy_s=0.5),
    ]


def test_the_kernel_counts_what_a_connection_sent() -> None:
    before = len(flows())
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        one.sendall(bytes(1000))
        assert len(other.recv(1000, socket.MSG_WAITALL)) == 1000
        other.sendall(b"!")  # which acknowledges them
        assert one.recv(1) == b"!"
        found = [flow for flow in flows() if flow.acknowledged >= 1000]
        assert len(flows()) == before + 2  # both ends are here; what only listens is none
    assert [(flow.here, flow.there) for flow in found] == [("127.0.0.1", "127.0.0.1")]
