"""Cluster files to test with."""

from steptime.cluster import Cluster, parse_cluster

DEVICE = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "1GB"
memory_bandwidth = "10GB/s"
"""
NIC = """
[nic]
per_host = {nics}
bandwidth = "10GB/s"
latency = "2us"
"""
SWITCH_INSIDE = """
[inside]
kind = "switch"
bandwidth = "100GB/s"
latency = "1us"
"""


def described(
    hosts: int, devices: int, network: str = "", inside: str = SWITCH_INSIDE, nics: int = 0
) -> Cluster:
    """A cluster whose networks have NICs where ``nics`` is not 0."""
    text = DEVICE + f"[host]\ncount = {hosts}\ndevices = {devices}\n"
    if devices > 1:
        text += inside
    if nics:
        text += NIC.format(nics=nics)
    if network:
        text += f"[network]\n{network}\n"
    return parse_cluster(text, "described.toml")


BUS = '[inside]\nkind = "bus"\nbandwidth = "20GB/s"\nlatency = "1us"\n'
BUS_AND_PORTS = BUS + 'device = { bandwidth = "8GB/s", latency = "2us" }\n'
PCIE = """
[inside]
kind = "pcie"
bandwidth = "24GB/s"
latency = "1us"
switch = { devices = 2, bandwidth = "20GB/s", latency = "0.1us" }
bridge = { devices = 4, bandwidth = "15GB/s", latency = "0.2us" }
socket = { devices = 8, bandwidth = "10GB/s", latency = "0.4us" }
"""
PAIRS = """
[inside]
kind = "pairs"
pairs = [
    { between = [0, 1], bandwidth = "5GB/s", latency = "1us" },
    { between = [1, 2], bandwidth = "6GB/s", latency = "2us" },
    { from = 0, to = 2, bandwidth = "7GB/s", latency = "3us" },
    { from = 2, to = 0, bandwidth = "8GB/s", latency = "4us" },
]
"""
TOGETHER = PAIRS + 'together = { bandwidth = "9GB/s", latency = "0us" }\n'
PORT = 'port = { bandwidth = "6GB/s", latency = "0us" }\n'
FAT_TREE = 'kind = "fat_tree"\nhosts_per_leaf = 2\noversubscription = 2\nlatency = "0.5us"'
FAT_TREE_3 = FAT_TREE + "\nleaves_per_pod = 2\npod_oversubscription = 4"
RAIL = 'kind = "rail"\nacross = "{}"\nhosts_per_leaf = {}\nlatency = "0.5us"'
DRAGONFLY = """kind = "dragonfly"
groups = {}
routers_per_group = {}
hosts_per_router = {}
local = {{ bandwidth = "30GB/s", latency = "0.3us" }}
global = {{ bandwidth = "40GB/s", latency = "0.7us" }}"""
TORUS = 'kind = "torus"\ndimensions = {}\nbandwidth = "5GB/s"\nlatency = "1us"'
LINKS = """kind = "links"
links = [
    { between = ["host0", "left"], bandwidth = "25GB/s", latency = "5us" },
    { between = ["host1", "left"], bandwidth = "25GB/s", latency = "5us" },
    { between = ["host2", "right"], bandwidth = "25GB/s", latency = "5us" },
    { between = ["left", "right"], bandwidth = "50GB/s", latency = "20us" },
    { from = "left", to = "middle", bandwidth = "9GB/s", latency = "1us" },
    { from = "middle", to = "right", bandwidth = "9GB/s", latency = "1us" },
]"""
CLUSTERS = {
    "switch": described(1, 5),
    "bus": described(1, 3, inside=BUS),
    "bus with ports": described(2, 3, 'kind = "switch"', BUS_AND_PORTS, nics=1),
    "pcie": described(2, 16, 'kind = "switch"', PCIE, nics=8),
    "pairs": described(2, 3, 'kind = "switch"', PAIRS, nics=3),
    "pairs together": described(1, 3, inside=TOGETHER),
    "ports": described(1, 3, inside=PAIRS + PORT),
    "pairs together by ports": described(1, 3, inside=TOGETHER + PORT),
    "fat tree": described(5, 2, FAT_TREE, nics=2),
    "fat tree of three levels": described(9, 2, FAT_TREE_3, nics=1),
    "rails": described(6, 4, RAIL.format("spine", 4), nics=4),
    "rails and hops": described(6, 4, RAIL.format("host", 4), nics=2),
    "dragonfly": described(30, 1, DRAGONFLY.format(5, 3, 2), nics=2),
    "torus": described(24, 2, TORUS.format([2, 3, 4])),
    "links": described(3, 2, LINKS),
}
STRAGGLER = parse_cluster(
    DEVICE + "[host]\ndevices = 4\n" + SWITCH_INSIDE + '[speeds]\n"0.1" = 0.5', "slow.toml"
)
