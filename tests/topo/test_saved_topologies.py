"""Topologies saved on other machines: nvidia-smi topo -m and NCCL's XML."""

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.topo.files import parse_topology
from steptime.topo.rates import Processor, between_sockets, expected, nvlink_rate, pcie_rate
from steptime.topo.topology import Kind
from topo.machines import SAVED, mark, saved

HEAD = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"


def test_a_new_driver_with_colours_tabs_and_a_legend_of_nics():
    host = saved("dgx-h100.txt")
    assert [part.name for part in host.parts] == [f"GPU{n}" for n in range(8)] + [
        f"NIC{n}" for n in range(10)
    ]
    assert mark(host, "GPU0", "GPU7") == "NV18"
    assert mark(host, "GPU5", "NIC6") == "PIX"
    assert mark(host, "GPU3", "NIC4") == "NODE"
    assert (host.parts[4].cpus, host.parts[4].numa) == ("56-111,168-223", "1")
    assert host.parts[13].title == "mlx5_5"
    assert host.parts[13].numa == "1"  # said of GPUs alone, and NIC5 is in the node of GPU4
    assert [place.name for place in host.parts[13].above] == ["NUMA 1", "switch of GPU4"]


def test_an_old_driver_names_nics_in_the_header():
    host = saved("dgx-a100.txt")
    nics = host.of_kind(Kind.NIC)
    assert [(host.parts[n].name, host.parts[n].title) for n in nics[:2]] == [
        ("NIC0", "mlx5_0"),
        ("NIC1", "mlx5_1"),
    ]
    assert mark(host, "GPU1", "NIC0") == "PXB"
    assert host.parts[0].numa == "3"


def test_places_that_follow_from_the_marks():
    host = saved("pcie-2-sockets.txt")
    above = {part.name: [place.name for place in part.above] for part in host.parts}
    assert above["GPU1"] == ["NUMA 0", "switch above GPU0", "switch of GPU0"]
    assert above["GPU2"] == ["NUMA 0", "switch above GPU0"]
    assert above["GPU3"] == ["NUMA 0"]
    assert above["NIC0"] == above["GPU0"]
    old = saved("dgx-1v.txt")
    assert [place.name for place in old.parts[1].above] == [
        "NUMA group 0",
        "host bridge of GPU0",
        "switch of GPU0",
    ]


def test_a_file_of_nccl():
    host = saved("dgx-a100.xml")
    assert len(host.of_kind(Kind.GPU)) == 8
    assert mark(host, "GPU0", "GPU7") == "NV12"  # six switches, two links to each
    assert mark(host, "GPU0", "NIC0") == "PIX"
    assert mark(host, "GPU0", "NIC1") == "PHB"
    assert mark(host, "GPU0", "NIC2") == "SYS"
    assert host.parts[5].cpus == "32-63,96-127"
    assert host.parts[8].network == 25e9
    rates = expected(host)
    assert rates[0, 7] == 240e9
    assert rates[0, 8] == 24e9
    assert rates[0, 10] == 16e9  # Zen 2 between its sockets


def test_nccls_charges_on_intel_and_narrow_links():
    host = saved("pcie.xml")
    rates = expected(host)
    assert rates[0, 1] == 12e9
    assert rates[0, 2] == pytest.approx(12e9 * 5 / 6)
    assert rates[0, 4] == 6e9  # the NIC has eight lanes
    assert (rates == rates.T).all()
    assert np.isinf(np.diag(rates)).all()


def test_direct_nvlinks_in_a_file_of_nccl():
    link = '<nvlink target="{}" count="{}" tclass="0x030200"/>'
    gpu = (
        '<pci busid="{}" class="0x030200" link_speed="8 GT/s" link_width="16">'
        '<gpu dev="{}" sm="70" rank="{}" gdr="1">{}</gpu></pci>'
    )
    a, b = "0000:06:00.0", "0000:0A:00.0"
    text = (
        '<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" '
        f'familyid="6" modelid="79">{gpu.format(a, 0, 0, link.format(b, 2))}'
        f"{gpu.format(b, 1, 1, link.format(a, 2))}</cpu></system>"
    )
    host = parse_topology(text, "x.xml")
    assert host.marks == (("X", "NV2"), ("NV2", "X"))
    assert host.between_sockets == 6e9
    assert expected(host)[0, 1] == 40e9


@pytest.mark.parametrize(
    ("sm", "gbps"), [(37, None), (60, 18), (70, 20), (80, 20), (86, 12), (90, 20.6), (103, 40.1)]
)
def test_nvlinks_by_generation(sm, gbps):
    assert nvlink_rate(sm) == (None if gbps is None else gbps * 1e9)


def test_pcie_and_sockets_by_generation():
    assert pcie_rate("16.0 GT/s PCIe", 16) == 24e9
    assert pcie_rate("32 GT/s", 8) == 24e9
    assert pcie_rate("Unknown", 16) == 12e9
    intel = [between_sockets(Processor("x86_64", "GenuineIntel", 6, m)) for m in (79, 85, 143, 207)]
    assert intel == [6e9, 10e9, 22e9, 40e9]
    amd = [between_sockets(Processor("x86_64", "AuthenticAMD", f, 1)) for f in (23, 25, 26)]
    assert amd == [16e9, 24e9, 32e9]
    assert between_sockets(Processor("riscv64", "", 0, 0)) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "x is neither the output of nvidia-smi topo -m nor a topology of NCCL in XML"),
        ("<html></html>", "its root is 'html'"),
        ("<system><cpu", "cannot read the topology x: it is no XML"),
        ("<system version='1'></system>", "x holds no GPU"),
        (
            "<system><cpu numaid='0'><pci busid='a'><gpu dev='one'/></pci></cpu></system>",
            "cannot read the topology x: invalid literal",
        ),
        (
            "<system><cpu modelid='x'><pci busid='a'><gpu dev='0'/></pci></cpu></system>",
            "invalid literal",
        ),
        (
            "<system><cpu><pci><gpu dev='0'><nvlink count='100'/></gpu></pci></cpu></system>",
            "the NVLinks of a GPU to another is 100: it must be at most 99",
        ),
        (
            "<system><cpu><pci busid='a' link_width='-1'><gpu dev='0'/></pci></cpu></system>",
            "a link_width is -1: it must be at least 0",
        ),
        (
            f"<system><cpu affinity='{'f' * 9999}'><pci><gpu dev='0'/></pci></cpu></system>",
            "the digits of a CPU mask is 9999: it must be at most 4,096",
        ),
        (
            f"<system><cpu>{'<pci><gpu dev=`0`/></pci>' * 600}</cpu></system>".replace("`", "'"),
            "the number of GPUs and NICs is 600: it must be at most 512",
        ),
        (
            f"<system><cpu>{'<pci>' * 9999}{'</pci>' * 9999}</cpu></system>",
            "it is nested too deeply",
        ),
        ("<system><cpu affinity='zz'><pci busid='a'><gpu dev='0'/></pci></cpu></system>", "cannot"),
        (HEAD + "GPU0\t X \tNV999\nGPU1\tNV999\t X \n", "has 'NV999' from GPU0 to GPU1"),
        (HEAD + "GPU0\t X \tPIX\t0-3\t0\n", "is not square: it has 2 columns and 1 rows, none for"),
        (HEAD + "GPU0\t X \nGPU1\tPIX\t X \n", "line 2 of x, the row of GPU0, has 1 marks for 2"),
        (HEAD + "GPU0\t X \tPIP\nGPU1\tPIP\t X \n", "line 2 of x has 'PIP' from GPU0 to GPU1"),
        (HEAD + "GPU0\t X \tNV0\nGPU1\tNV0\t X \n", "has 'NV0' from GPU0 to GPU1"),
        (HEAD + "GPU0\tPIX\tPIX\nGPU1\tPIX\t X \n", "has 'PIX' from GPU0 to GPU0"),
        (HEAD + "GPU0\t X \tPIX\nGPU1\tPHB\t X \n", "has PIX from GPU0 to GPU1 and PHB back"),
        (HEAD + "GPU0\t X \tPIX\nGPU0\tPIX\t X \n", "line 3 of x is a second row of GPU0"),
    ],
)
def test_what_is_refused(text, says):
    with pytest.raises(UsageError) as error:
        parse_topology(text, "x")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_half_a_file_is_never_half_a_topology():
    text = (SAVED / "dgx-1v.txt").read_text()
    table = text.index("\nLegend")
    for end in range(0, table - 25, 37):
        with pytest.raises(UsageError):
            parse_topology(text[:end], "x")


def test_nothing_assumed_is_said_where_all_is_known():
    from steptime.topo.rates import assumed

    assert assumed(saved("dgx-a100.xml")).words == ""
    assert "Hopper" in assumed(saved("dgx-h100.txt")).words
    assert "Volta" in assumed(saved("dgx-1v.txt")).words
