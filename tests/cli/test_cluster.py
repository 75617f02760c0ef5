"""The verb cluster: what a cluster is made of, as text, JSON and a picture."""

from pathlib import Path

import pytest
from command import here

FILE = """
title = "Two hosts"
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "1GB"
memory_bandwidth = "10GB/s"
[host]
count = 2
[nic]
bandwidth = "10Gb/s"
latency = "20us"
[network]
kind = "switch"
"""


@pytest.mark.parametrize("name", ["h100-16384", "pcie-host-bridge-8"])
def test_a_cluster_in_the_terminal(name: str, tmp_path: Path) -> None:
    ended = here("cluster", "show", name, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 80
    if name == "h100-16384":
        assert "2,048 hosts of 8 × H100 SXM 80GB" in ended.out
        assert "56.2 TB/s between halves of the hosts (computed)" in ended.out
        assert "network   pod up             6   21.1 TB/s         500 ns" in ended.out
        assert "  13,312 devices   NIC, leaf, pod       6   7.00 µs   48.0 GB/s" in ended.out
    else:
        assert "       4 devices   device, bridge, socket       6   7.20 µs   10.0" in ended.out


def test_a_file_as_json_and_as_a_picture(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(FILE)
    answer = here("cluster", "show", "two.toml", "--json", folder=tmp_path).json
    assert (answer["verb"], answer["source"], answer["name"]) == ("cluster", "computed", "two")
    assert (answer["hosts"], answer["devices"], answer["inside"]) == (2, 2, None)
    assert answer["bisection_Bps"] == 1.25e9
    links = answer["links"][0]
    assert (links["where"], links["label"], links["number"]) == ("network", "NIC up", 2)
    assert links["bandwidth_Bps"] == [1.25e9, 1.25e9]
    assert links["latency_s"] == pytest.approx([2e-5, 2e-5])
    (way,) = answer["paths_from_device_0"]
    assert way["latency_s"] == pytest.approx(4e-5)
    assert (way["devices"], way["by"], way["links"]) == (1, ["NIC"], 2)
    ended = here("cluster", "show", "two.toml", "--svg", "two.svg", folder=tmp_path)
    assert "picture: two.svg" in ended.out
    assert (tmp_path / "two.svg").read_text().startswith("<svg ")


def test_the_list_of_clusters(tmp_path: Path) -> None:
    ended = here("cluster", "list", folder=tmp_path)
    assert "marenostrum5-nine" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    answer = here("cluster", "list", "--json", folder=tmp_path).json
    assert "laptop" in [one["name"] for one in answer["clusters"]]


def test_bad_input_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(FILE.replace("10Gb/s", "fast"))
    ended = here("cluster", "show", "bad.toml", "--json", folder=tmp_path)
    assert ended.code == 2
    assert ended.json["error"] in ended.err
    assert "bad.toml: nic.bandwidth: 'fast' is not a rate" in ended.err
    ended = here("cluster", "show", "laptop", "--svg", "no/where.svg", folder=tmp_path)
    assert ended.code == 1
    assert "cannot write no/where.svg" in ended.err
