"""The picture of a cluster: whole, of one piece, and everything in sight."""

import re
from xml.etree import ElementTree

import pytest

from cluster.descriptions import CLUSTERS, STRAGGLER
from steptime.cluster import Cluster, cluster_named, preset_names
from steptime.report.cluster_picture import svg

SHOWN = CLUSTERS | {name: cluster_named(name) for name in preset_names()}
SPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("cluster", SHOWN.values(), ids=SHOWN)
def test_the_picture_is_whole_and_in_sight(cluster: Cluster) -> None:
    text = svg(cluster)
    root = ElementTree.fromstring(text)  # noqa: S314  # our own text
    assert not re.search(r"href|url\(|<script|nan|inf\b", text)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert (left, int(root.attrib["width"])) == (0, width)
    for rect in root.iter(f"{SPACE}rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= width + 1
        assert y >= top - 1
        assert y + h <= top + height + 1
    for label in root.iter(f"{SPACE}text"):
        assert top <= float(label.attrib["y"]) <= top + height
    assert 8.4 * len(cluster.title) < width
    words = [label.text for label in root.iter(f"{SPACE}text")]
    assert cluster.title in words
    assert f"host {cluster.hosts - 1}" in words
    assert ("…" in words) == (cluster.hosts > 4 or cluster.devices // cluster.hosts > 8)


def test_switches_on_the_way_between_what_is_shown_are_there() -> None:
    text = svg(cluster_named("h100-16384"))
    for name in ("leaf0", "leaf1", "leaf1023", "pod0", "pod5", "core", "NVSwitch"):
        assert f">{name}<" in text
    assert ">leaf2<" not in text
    assert ">768 GB/s, 500 ns<" in text
    assert ">leaf, 1,024 each way<" in text


def test_stragglers_are_marked() -> None:
    assert svg(STRAGGLER).count(">×0.5<") == 1
    assert svg(STRAGGLER).count('class="inside"') == 4
