"""This machine, as a kernel and an NVML of our own show it."""

import importlib.util

import pytest

from steptime.topo import machine
from steptime.topo.gpus import gpus_of
from steptime.topo.rates import expected
from topo.machines import Kernel, Nvml, mark

SWITCH = "pci0000:17/0000:17:01.0/0000:18:00.0"  # a root port and the upper side of a switch
FAST = {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16"}


@pytest.fixture
def kernel(tmp_path):
    kernel = Kernel(tmp_path)
    kernel.node(0, "0-15")
    kernel.node(1, "16-31")
    kernel.write("sys/devices/system/cpu/online", "0-31")
    kernel.write(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n"
        "model name\t: Intel Xeon Gold 6338",
    )
    return kernel


def test_a_machine_without_gpus(kernel, monkeypatch):
    monkeypatch.setattr(machine, "read_gpus", lambda: ((), "No GPU: there is no driver."))
    port = kernel.device("pci0000:3a/0000:3a:00.0/0000:3b:00.0", 1, local_cpulist="16-31")
    second = kernel.device("pci0000:3a/0000:3a:00.0/0000:3b:00.1", 1)
    far = kernel.device("pci0000:00/0000:00:1f.6", 0)
    kernel.nic("infiniband", "mlx5_0", port, ports__1__rate="200 Gb/sec (4X HDR)")
    kernel.nic("net", "ib0", port, speed="200000")
    kernel.nic("net", "eth0", far, speed="1000")
    kernel.nic("net", "eth1", second, speed="-1")
    (kernel.root / "sys/class/net/lo").mkdir()
    host = machine.this_machine(kernel.root)
    assert [(part.name, part.title) for part in host.parts] == [
        ("NUMA0", "67.1 GB of memory"),
        ("NUMA1", "67.1 GB of memory"),
        ("NIC0", "mlx5_0"),
        ("NIC1", "eth0"),
        ("NIC2", "eth1"),
    ]
    assert host.notes == ("No GPU: there is no driver.",)
    assert "Intel Xeon Gold 6338, 32 cores, 2 NUMA nodes" in host.host
    assert mark(host, "NUMA0", "NUMA1") == "SYS"
    assert mark(host, "NUMA1", "NIC0") == "PHB"
    assert mark(host, "NUMA0", "NIC0") == "SYS"
    assert mark(host, "NIC0", "NIC2") == "PIX"  # two ports of one card
    assert mark(host, "NIC0", "NIC1") == "SYS"
    assert [part.network for part in host.parts[2:]] == [25e9, 125e6, None]
    assert host.parts[2].cpus == "16-31"
    assert host.between_sockets == 10e9


def test_a_virtual_machine_whose_kernel_knows_no_numa_node(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "read_gpus", lambda: ((), "No GPU."))
    kernel = Kernel(tmp_path)
    kernel.node(0, "0-1")
    card = kernel.device("pci0000:00/0000:00:03.0", -1)
    (card / "virtio2").mkdir()
    kernel.nic("net", "eth0", card / "virtio2")
    host = machine.this_machine(kernel.root)
    assert mark(host, "NUMA0", "NIC0") == "PHB"
    assert [place.name for place in host.parts[1].above] == ["NUMA 0", "host bridge 0000:00"]


def test_gpus_below_switches(kernel, monkeypatch):
    addresses = ["0000:1a:00.0", "0000:1b:00.0", "0000:2b:00.0", "0000:b0:00.0"]
    lower = f"{SWITCH}/0000:19:02.0/0000:28:00.0"
    paths = [
        f"{SWITCH}/0000:19:00.0/{addresses[0]}",
        f"{SWITCH}/0000:19:01.0/{addresses[1]}",
        f"{lower}/0000:29:00.0/{addresses[2]}",
        f"pci0000:ae/0000:ae:00.0/{addresses[3]}",
    ]
    for n, path in enumerate(paths):
        kernel.device(path, int(n == 3), **FAST)
    nic = kernel.device(f"{lower}/0000:29:01.0/0000:2c:00.0", 0, **FAST)
    kernel.write(f"sys/devices/{lower}/max_link_speed", "8.0 GT/s PCIe")
    kernel.write(f"sys/devices/{lower}/max_link_width", "16")
    kernel.nic("infiniband", "mlx5_0", nic)
    levels = {(0, 1): 10, (0, 2): 20, (1, 2): 20, (0, 3): 50, (1, 3): 50, (2, 3): 50}
    bridge = [addresses[1]] * 3 + ["off"]
    nvml = Nvml(dict(zip(addresses, [bridge, [addresses[0]] * 3, [], []], strict=True)), levels)
    monkeypatch.setattr(machine, "read_gpus", lambda: (gpus_of(nvml), ""))
    host = machine.this_machine(kernel.root)
    assert host.notes == ()
    assert [part.name for part in host.parts] == ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0"]
    assert host.marks[0] == ("X", "NV3", "PXB", "SYS", "PXB")
    assert host.marks[2] == ("PXB", "PXB", "X", "SYS", "PIX")
    rates = expected(host)
    assert rates[0, 1] == 60e9
    assert rates[2, 4] == 24e9
    assert rates[0, 2] == 12e9  # the lower switch has a slower link upwards
    assert rates[0, 3] == 10e9


def test_gpus_behind_nvswitches():
    switched = {"0000:01:00.0": ["switch"] * 12, "0000:02:00.0": ["switch"] * 11 + ["off"]}
    gpus = gpus_of(Nvml(switched, {(0, 1): 40}))
    assert [dict(gpu.nvlinks) for gpu in gpus] == [{1: 11}, {0: 11}]
    assert gpus[1].address == "0000:02:00.0"
    assert (gpus[0].sm, gpus[0].marks) == (80, {1: "NODE"})


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="no nvidia-ml-py")
def test_every_name_that_is_asked_of_nvml_exists():
    import pynvml

    asked = [name for name in vars(Nvml) if name.startswith(("nvml", "NVML"))]
    assert len(asked) > 8
    assert [name for name in asked if not hasattr(pynvml, name)] == []
