"""Cluster files: what they say is what the cluster is, and what is wrong in one is told."""

from pathlib import Path

import numpy as np
import pytest

from cluster.descriptions import DEVICE, described
from steptime.cluster import cluster_named, parse_cluster, preset_names
from steptime.errors import UsageError

PAIR = (
    DEVICE + '[host]\ndevices = 2\n[inside]\nkind = "switch"\nbandwidth = "1GB/s"\nlatency = "1us"'
)
HOSTS = DEVICE + "[host]\ncount = 4\n"
NIC = HOSTS + '[nic]\nbandwidth = "1GB/s"\nlatency = "1us"\n'


def calls(ranks: int, sizes: str, times: str, more: str = "") -> str:
    """A cluster of two devices, and what an all_reduce takes there."""
    keys = f'ranks = {ranks}, algorithm = "ring", sizes = {sizes}, times = {times}{more}'
    return f"{PAIR}\n[calls]\nall_reduce = [{{ {keys} }}]"


STAR = NIC + '[network]\nkind = "switch"\n'
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "clusters").glob("*.toml"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[device", "cannot read the cluster file x.toml: it is no TOML"),
        ("", "device.flops is missing"),
        (DEVICE + "memroy = 1", "device.memroy is not known here: did you mean 'memory'?"),
        (DEVICE + "[hots]\ncount = 2", "hots is not known here: did you mean 'host'?"),
        (STAR.replace("1GB/s", "1"), "nic.bandwidth: '1' is not a rate: write bytes as 10GB/s"),
        (STAR.replace('"1GB/s"', "1"), "nic.bandwidth: '1' is not a rate"),
        (STAR.replace('"1GB/s"', "nan"), "nic.bandwidth: 'nan' is not a rate"),
        (STAR.replace("1GB/s", "-1GB/s"), "nic.bandwidth: '-1GB/s' is not a rate"),
        (STAR.replace("1GB/s", "0GB/s"), "nic.bandwidth is 0GB/s: it must be above 0"),
        (STAR.replace("1GB/s", "1e999GB/s"), "nic.bandwidth: '1e999GB/s' is no rate of anything"),
        (STAR.replace("1us", "1"), "nic.latency: '1' is not a time"),
        (
            STAR.replace("\nbandwidth", "\nbandwith"),
            "nic.bandwidth is missing: does 'bandwith' stand",
        ),
        (HOSTS + '[network]\nkind = "switch"', "nic.bandwidth is missing"),
        (STAR.replace("switch", "swich"), "network.kind is 'swich': did you mean switch?"),
        (STAR + "nics = 2", "network.nics is not known here"),
        (STAR + 'send_buffer = "0MB"', "network.send_buffer is 0MB: it must be above 0"),
        (STAR + "unfairness = 1.0", "network.unfairness is 1: it must be below 1"),
        (
            STAR + "unfairness = -0.1",
            "network.unfairness is -0.1: it must be a finite number above",
        ),
        (HOSTS, "network.kind is missing"),
        (HOSTS.replace("4", "0"), "host.count is 0: it must be a whole number, 1 or more"),
        (HOSTS.replace("4", "2.5"), "host.count is 2.5: it must be a whole number"),
        (HOSTS.replace("4", "true"), "host.count is True: it must be a whole number"),
        (HOSTS.replace("4", "2000000"), "host.count times devices is 2000000: at most"),
        ("host = 3\n" + DEVICE, "host is 3: it must be a table of keys and values"),
        ("title = 3\n" + DEVICE, "title is 3: it must be text in quotes"),
        (DEVICE.replace("1TFLOP/s", "1TB/s"), "device.flops.fp32: '1TB/s' is not a rate of comp"),
        (DEVICE + "efficiency = nan", "device.efficiency is nan: it must be a finite number"),
        (DEVICE + "efficiency = 1.2", "device.efficiency is 1.2: it is a part of the peak"),
        (DEVICE + '[inside]\nkind = "switch"', "inside joins the devices of a host, and each has"),
        (DEVICE + '[nic]\nbandwidth = "1GB/s"', "nic joins hosts, and there is one"),
        (PAIR + "\n[speeds]\n0 = 0", "speeds.0 is 0: it must be a finite number above 0"),
        (
            PAIR + '\n[speeds]\n"1" = 0.5',
            "speeds.1 names device 0 of host 1: hosts are numbered to 0 and",
        ),
        (PAIR + "\n[speeds]\nfirst = 2", "speeds.first has 'first.0': a device is written as"),
        (PAIR + '\n[placement]\norder = "blocked"', "placement.order is 'blocked': it must be"),
        (PAIR + "\n[placement]\norder = [0, 0]", "placement.order names device 0.0 twice"),
        (PAIR + "\n[placement]\norder = [2]", "placement.order names device 0 of host 1"),
        (PAIR + '\n[placement]\norder = ["0.x"]', "placement.order has '0.x': a device is"),
        (STAR + "[nic.out]\nbandwith = 3", "nic.out.bandwith is not known here"),
        (
            DEVICE
            + '[host]\ncount = 2\ndevices = 4\n[inside]\nkind = "switch"\nbandwidth = "1GB/s"'
            '\nlatency = "1us"\n[nic]\nper_host = 3\nbandwidth = "1GB/s"\nlatency = "1us"\n'
            '[network]\nkind = "switch"',
            "nic.per_host is 3, which does not divide the 4 devices",
        ),
        (STAR.replace("[nic]", "[nic]\nper_host = 900000"), "per_host times hosts is 3600000: at"),
        (
            PAIR.replace("switch", "pcie") + '\nswitch = { devices = 3, bandwidth = "1GB/s" }',
            "inside.switch.devices is 3, which does not divide the 2 devices of the host",
        ),
        (
            NIC + '[network]\nkind = "dragonfly"\ngroups = 3\nrouters_per_group = 1\n'
            "hosts_per_router = 1",
            "network.groups and routers hold 3 hosts, and there are 4",
        ),
        (NIC + '[network]\nkind = "torus"', "nic is not for 'torus'"),
        (
            HOSTS + '[network]\nkind = "torus"\ndimensions = [3, 2]',
            "network.dimensions hold 6 hosts, and there are 4",
        ),
        (
            HOSTS + '[network]\nkind = "torus"\ndimensions = [4.0]',
            "network.dimensions is [4.0]: it must be a list such as",
        ),
        (
            HOSTS + '[network]\nkind = "links"\nlinks = [{ between = ["host0", "host1"], '
            'bandwidth = "1GB/s", latency = "1us" }]',
            "network.links do not join host2 and host0 both ways: add links for it",
        ),
        (
            HOSTS + '[network]\nkind = "links"\nlinks = [{ between = ["host0", "host4"] }]',
            "network.links[0].between names host4: there are 4 hosts, counted from host0",
        ),
        (
            HOSTS + '[network]\nkind = "links"\nlinks = [{ from = "host0" }]',
            "network.links[0].to has None: a node is named in quotes",
        ),
        (
            DEVICE + '[host]\ndevices = 3\n[inside]\nkind = "pairs"\npairs = [{ between = [0, 1], '
            'bandwidth = "1GB/s", latency = "1us" }]',
            "inside.pairs lacks the one from device 0 to 2",
        ),
        (
            DEVICE + '[host]\ndevices = 1000000\n[inside]\nkind = "pairs"\npairs = []',
            "inside.pairs lacks the one from device 0 to 1",
        ),
        (
            DEVICE + '[host]\ndevices = 2\n[inside]\nkind = "pairs"\n'
            "pairs = [{ between = [0, 2] }]",
            "inside.pairs[0].between has 2: a device is a number from 0 to 1",
        ),
        (
            calls(ranks=2, sizes='["4KiB", "2KiB"]', times='["1us", "2us"]'),
            "calls.all_reduce[0].sizes do not ascend: sort them, with their times",
        ),
        (
            calls(ranks=2, sizes='["4KiB", "8KiB"]', times='["1us"]'),
            "calls.all_reduce[0].times are 1 for 2 sizes: give one each",
        ),
        (
            calls(ranks=2, sizes='["much"]', times='["1us"]'),
            "calls.all_reduce[0].sizes: ",
        ),
        (
            calls(ranks=1, sizes='["4KiB"]', times='["1us"]'),
            "calls.all_reduce[0].ranks is 1: it must be a whole number, 2 or more",
        ),
        (
            calls(2, '["4KiB"]', '["1us"]', ', work = ["1us", "2us"], rest = ["1us"]'),
            "calls.all_reduce[0].work has 2 times for 1 sizes",
        ),
        (
            calls(2, '["4KiB"]', '["1us"]', ', work = ["1us"]'),
            "calls.all_reduce[0].work goes with rest: give both, or neither",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cluster(text, "x.toml")
    assert why in str(caught.value)
    assert str(caught.value).startswith(("x.toml", "cannot read the cluster file x.toml"))
    assert "\n" not in str(caught.value)


def test_a_name_that_is_none_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"did you mean dgx-h100\?"):
        cluster_named("dgx-h10")
    with pytest.raises(UsageError, match="choose one of dgx-a100, "):
        cluster_named("summit")
    with pytest.raises(UsageError, match=r"no\.toml: No such file"):
        cluster_named(tmp_path / "no.toml")
    (tmp_path / "data.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="it is no text"):
        cluster_named(str(tmp_path / "data.toml"))


def test_a_preset_takes_any_number_of_hosts_and_its_switches_grow() -> None:
    pod, large = cluster_named("dgx-a100-pod"), cluster_named("dgx-a100-pod:hosts=280")
    assert (large.hosts, large.devices, large.device) == (280, 2240, pod.device)
    assert large.name == "dgx-a100-pod:hosts=280"
    assert large.title.startswith("280 × 8 A100 SXM 80GB")
    assert pod.network and large.network
    leaves = [sum("block" in node for node in c.network.nodes) for c in (pod, large) if c.network]
    assert leaves == [2 * 8, 14 * 8]  # blocks of 20 hosts, a switch for each of 8 rails
    assert np.isfinite(large.links.bandwidth[large.paths([0], [2239])]).all()


def test_one_host_of_a_preset_has_no_network_and_a_file_takes_hosts_too(tmp_path: Path) -> None:
    alone = cluster_named("dgx-h100-pod:hosts=1")
    assert (alone.devices, alone.network) == (8, None)
    file = tmp_path / "own.toml"
    file.write_text(
        '[device]\nflops = { bf16 = "1TFLOP/s" }\nmemory = "1GB"\nmemory_bandwidth = "1GB/s"\n'
        '[nic]\nbandwidth = "1GB/s"\nlatency = "1us"\n[host]\ncount = 2\n'
        '[network]\nkind = "switch"\n'
    )
    assert cluster_named(f"{file}:hosts=5").devices == 5


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dgx-a100:hosts=4", "no network to join 4 hosts.*or name dgx-a100-pod:hosts=4"),
        ("laptop:hosts=2", "add .network. to a file of it$"),
        ("dgx-a100-pod:host=4", "asked for with host=4: after its name write hosts="),
        ("dgx-a100-pod:hosts=x", "write hosts= and a number from 1 up"),
        ("dgx-a100-pod:hosts=0", "write hosts= and a number from 1 up"),
        ("dgx-a100-pod:hosts=99999999", "host.count times devices is 799999992: at most"),
        ("dgx-a100-pud:hosts=4", "no cluster is called 'dgx-a100-pud'.*dgx-a100-pod"),
    ],
)
def test_hosts_that_cannot_be_are_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        cluster_named(name)


def test_ways_out_and_in_may_differ() -> None:
    ways = '[nic]\nlatency = "1us"\nout = { bandwidth = "2GB/s" }\n'
    ways += 'in = { bandwidth = "3GB/s", latency = "5us" }\n[network]\nkind = "switch"'
    links = parse_cluster(HOSTS + ways, "x.toml").links
    assert set(links.bandwidth[:4]) == {2e9}
    assert set(links.bandwidth[4:]) == {3e9}
    assert links.latency == pytest.approx([1e-6] * 4 + [5e-6] * 4)


def test_a_socket_may_hold_what_its_rank_has_sent() -> None:
    assert parse_cluster(STAR, "x").send_buffer == 0
    assert parse_cluster(STAR + 'send_buffer = "2MiB"', "x").send_buffer == 2 << 20


def test_unfairness_is_none_unless_it_is_given():
    assert parse_cluster(STAR, "x").unfairness == 0
    assert parse_cluster(STAR + "unfairness = 0.25", "x").unfairness == 0.25


def test_ranks_take_devices_in_the_order_of_the_placement() -> None:
    cluster = described(2, 3, 'kind = "switch"', nics=1)
    assert cluster.order.tolist() == [0, 1, 2, 3, 4, 5]
    assert cluster.host_of.tolist() == [0, 0, 0, 1, 1, 1]
    spread = parse_cluster(PAIR + '\n[placement]\norder = ["0.1", 0]', "x.toml")
    assert spread.placed(2).tolist() == [1, 0]
    with pytest.raises(UsageError, match="3 ranks do not fit on x, which has 2 places"):
        spread.placed(3)


def test_round_robin_goes_over_the_hosts() -> None:
    text = STAR.replace("count = 4", "count = 2\ndevices = 3") + '[inside]\nkind = "switch"\n'
    text += 'bandwidth = "1GB/s"\nlatency = "1us"\n[placement]\norder = "round_robin"'
    assert parse_cluster(text, "x.toml").order.tolist() == [0, 3, 1, 4, 2, 5]


def test_a_host_or_one_device_may_be_slow() -> None:
    cluster = cluster_named(next(path for path in EXAMPLES if path.stem == "dragonfly"))
    slow = {place: speed for place, speed in enumerate(cluster.speed.tolist()) if speed != 1}
    assert slow == {28: 0.8, 29: 0.8, 30: 0.8, 31: 0.8, 51: 0.5}


def test_devices_share_the_nics_of_their_host() -> None:
    cluster = described(2, 8, 'kind = "switch"', nics=4)
    first = cluster.paths(np.arange(8), np.full(8, 8))[:, 0]
    names = [cluster.links.names[link] for link in first]
    assert names == [f"host0.nic{n} → switch" for n in (0, 0, 1, 1, 2, 2, 3, 3)]


@pytest.mark.parametrize("name", [*preset_names(), *map(str, EXAMPLES)])
def test_presets_and_examples_say_what_they_are(name: str) -> None:
    cluster = cluster_named(name)
    assert cluster.title
    assert cluster.source
    assert np.isfinite(cluster.links.bandwidth).all()
    assert cluster.device.flops


def test_the_clusters_that_were_promised_are_there() -> None:
    sizes = {name: cluster_named(name).devices for name in preset_names()}
    assert sizes["h100-16384"] == 16384
    assert sizes["marenostrum5-nine"] == 10
    assert {"laptop", "dgx-a100", "dgx-h100", "hgx-h200-pod", "hgx-b200-pod"} <= sizes.keys()
    assert {"office-10gbe", "pcie-switch-8", "pcie-host-bridge-8"} <= sizes.keys()


def test_the_nine_ranks_are_eight_workers_and_a_server_alone() -> None:
    cluster = cluster_named("marenostrum5-nine")
    *workers, server = cluster.placed(9)
    assert cluster.host_of[workers].tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert cluster.host_of[server] == 0
    to_server = cluster.paths(workers, np.full(8, server))
    assert len(set(to_server[:, 1])) == 1  # all eight share the way into node 0
    assert cluster.links.bandwidth[to_server[0, 1]] == 10e9


def test_a_ring_on_dgx_a100_is_as_fast_as_published() -> None:
    # Bus bandwidths in GB/s of nccl-tests on 8 A100 (ml-engineering, network).
    published = {1 << 20: 18.0, 16 << 20: 106.2, 1 << 30: 229.0, 4 << 30: 233.9, 16 << 30: 234.9}
    cluster = cluster_named("dgx-a100")
    path = cluster.paths([0], [1])[0]
    alpha, rate = cluster.links.latency[path].sum(), cluster.links.bandwidth[path].min()
    errors = []
    for size, busbw in published.items():
        seconds = 14 * (size / 8 / rate + alpha)
        errors.append(seconds / (1.75 * size / busbw / 1e9) - 1)
    assert errors[0] == pytest.approx(-0.10, abs=0.01)
    assert errors[1] == pytest.approx(-0.24, abs=0.01)
    assert np.abs(errors[2:]).max() < 0.02


def test_cores_that_ranks_share_and_the_work_of_calls_are_read() -> None:
    more = ', work = ["1us", "2us"], rest = ["3us", "3us"]'
    text = calls(2, '["4KiB", "8KiB"]', '["4us", "5us"]', more)
    cluster = parse_cluster(text.replace("[host]\n", "[host]\ncores = 1.5\n"), "x.toml")
    (of_two,) = cluster.calls["all_reduce"]
    assert cluster.cores == 1.5
    assert [of_two.work_at(nbytes) for nbytes in (1, 8192, 16384)] == pytest.approx(
        [1e-6, 2e-6, 4e-6]
    )
    assert [of_two.rest_at(nbytes) for nbytes in (1, 16384)] == pytest.approx([3e-6, 3e-6])


def test_without_work_all_the_time_of_a_call_is_rest() -> None:
    cluster = parse_cluster(calls(2, '["4KiB"]', '["4us"]'), "x.toml")
    (of_two,) = cluster.calls["all_reduce"]
    assert (cluster.cores, of_two.work_at(4096), of_two.rest_at(4096)) == (0.0, 0.0, 4e-6)


def test_the_times_of_calls_are_read_and_go_on_along_a_line() -> None:
    text = calls(ranks=2, sizes='["4KiB", "8KiB"]', times='["1us", "2us"]')
    (of_two,) = parse_cluster(text, "x.toml").calls["all_reduce"]
    assert (of_two.ranks, of_two.algorithm) == (2, "ring")
    times = [of_two.at(nbytes) for nbytes in (1, 4096, 6144, 8192, 16384)]
    assert times == pytest.approx([1e-6, 1e-6, 1.5e-6, 2e-6, 4e-6])
