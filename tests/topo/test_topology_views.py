"""What is made of a topology: the matrix, the ring, the picture, the cluster file."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest

from steptime.cluster.files import parse_cluster
from steptime.report.topo_picture import picture
from steptime.topo.cluster_file import cluster_file
from steptime.topo.explain import explained, findings
from steptime.topo.files import parse_topology
from steptime.topo.marks import distance
from steptime.topo.matrix import matrix_lines, part_lines, shared_rows, span
from steptime.topo.rates import expected
from steptime.topo.ring import best_ring
from topo.machines import SAVED, saved

FILES = sorted(path.name for path in SAVED.iterdir())


def bottleneck(rates, order):
    return min(rates[a, b] for a, b in zip(order, [*order[1:], order[0]], strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_no_ring_is_better_than_the_best(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 7))
    marks = np.array(["NV2", "NV1", "PIX", "SYS"])[random.integers(0, 4, (count, count))]
    cells = np.where(np.tri(count, dtype=bool), marks, marks.T)
    np.fill_diagonal(cells, "X")
    names = [f"GPU{n}" for n in range(count)]
    rows = ["\t".join([name, *row]) for name, row in zip(names, cells, strict=True)]
    host = parse_topology("\n".join(["\t" + "\t".join(names), *rows]), "x")
    rates = expected(host)
    ring = best_ring(host, rates)
    best = max(bottleneck(rates, (0, *rest)) for rest in permutations(range(1, count)))
    assert sorted(ring.order) == list(range(count))
    assert ring.rate == best == bottleneck(rates, ring.order) == rates[ring.slowest]


def test_the_rings_of_known_hosts():
    mesh = saved("dgx-1v.txt")
    ring = best_ring(mesh, expected(mesh))
    assert mesh.marks[ring.slowest[0]][ring.slowest[1]] == "NV2"
    assert ring.rate == 40e9
    box = saved("pcie-2-sockets.txt")
    assert best_ring(box, expected(box)).rate == 10e9
    told = " ".join(findings(box, best_ring(box, expected(box))))
    assert "must cross SYS" in told
    assert "GPU4-7 have no NIC nearer than SYS" in told
    assert "16 of 28 pairs" in " ".join(findings(mesh, ring))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("columns", [80, 200])
def test_the_matrix_fits_and_is_ascii(name, columns):
    host = saved(name)
    lines = [line.plain for line in [*matrix_lines(host, columns), *part_lines(host)]]
    assert max(map(len, lines)) <= columns
    assert all(line.isascii() for line in lines)
    shown = {word for line in lines for word in line.split()}
    assert {mark for row in host.marks for mark in row} <= shown | {"X"}


def test_parts_that_are_interchangeable_share_a_row():
    rows = shared_rows(saved("dgx-a100.txt"))
    assert [row.name for row in rows][:4] == ["GPU0-1", "GPU2-3", "GPU4-5", "GPU6-7"]
    lines = [line.plain.split() for line in matrix_lines(saved("dgx-a100.txt"), 80)]
    assert lines[1][:5] == ["GPU0-1", "NV12", "NV12", "NV12", "NV12"]
    assert len(lines) == 9
    assert span(["GPU0", "GPU1", "GPU3"]) == "GPU0-1,3"
    assert span(["eth0", "ib0"]) == "eth0,ib0"


def test_the_slowest_pair_has_a_star():
    host = saved("pcie-2-sockets.txt")
    ring = best_ring(host, expected(host))
    lines = [line.plain for line in matrix_lines(host, 80, ring.slowest)]
    assert sum(line.count("SYS*") for line in lines) == 2


def test_marks_from_near_to_far():
    marks = ["SYS", "NODE", "NV1", "PHB", "X", "PIX", "NV12", "PXB"]
    assert sorted(marks, key=distance) == ["X", "NV12", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS"]


@pytest.mark.parametrize("name", FILES)
def test_the_picture_has_a_row_for_each_part(name):
    host = saved(name)
    rates = expected(host)
    root = ElementTree.fromstring(picture(host, explained(host, rates)))  # noqa: S314
    assert "://" not in picture(host, []).replace("http://www.w3.org/2000/svg", "")
    texts = ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]
    names = [part.name for part in host.parts]
    assert sorted(text for text in texts if text in names) == sorted(names + names)
    marks = [mark for row in host.marks for mark in row if mark != "X"]
    assert sorted(text for text in texts if text in set(marks)) == sorted(marks)
    wide, high = (float(root.get(side)) for side in ("width", "height"))
    for node in root.iter():
        x, y = float(node.get("x", 0)), float(node.get("y", 0))
        assert 0 <= x + float(node.get("width", 0)) <= wide
        assert 0 <= y + float(node.get("height", 0)) <= high


@dataclass(frozen=True)
class Link:
    src: int
    dst: int
    latency_s: float
    bandwidth: float


def test_what_is_measured_is_read_back_as_a_cluster():
    pairs = [
        Link(a, b, (1 + a) * 1e-6, (10 * a + b + 1) * 1e9)
        for a in range(3)
        for b in range(3)
        if a != b
    ]
    device = {
        "name": 'a "CPU"',
        "flops": {"fp32": 9.1e10, "bf16": 2e12},
        "memory": 8_000_000_001,
        "memory_bandwidth": 1.25e10,
        "reduction": 4e9,
    }
    text = cluster_file("here", "measured", device, pairs)
    cluster = parse_cluster(text, "here.toml")
    assert cluster.source == "measured"
    assert (cluster.hosts, cluster.devices) == (1, 3)
    assert dict(cluster.device.flops) == {"fp32": 9.1e10, "bf16": 2e12}
    assert cluster.device.reduction == 4e9
    for pair in pairs:
        (link,) = cluster.paths([pair.src], [pair.dst])[0]
        assert cluster.links.bandwidth[link] == pytest.approx(pair.bandwidth)
        assert cluster.links.latency[link] == pytest.approx(pair.latency_s)


def test_a_picture_of_many_parts_is_folded():
    names = [f"GPU{n}" for n in range(40)]
    rows = ["\t".join([a, *("X" if a == b else "PIX" for b in names)]) for a in names]
    host = parse_topology("\n".join(["\t" + "\t".join(names), *rows]), "x")
    drawn = picture(host, explained(host, expected(host)))
    assert "GPU0-39" in drawn
    assert "GPU17" not in drawn
