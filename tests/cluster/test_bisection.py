"""Bisection: the closed forms of each kind."""

import pytest

from cluster.descriptions import (
    BUS,
    CLUSTERS,
    DRAGONFLY,
    FAT_TREE,
    PCIE,
    RAIL,
    TORUS,
    described,
)
from steptime.cluster import Cluster, cluster_named
from steptime.cluster.bisection import bisection


@pytest.mark.parametrize(
    ("cluster", "gigabytes"),
    [
        (described(1, 1), 0),
        (described(1, 8), 400),
        (described(1, 5), 200),
        (described(1, 4, inside=BUS), 20),
        (described(1, 16, inside=PCIE), 10),
        (described(8, 1, 'kind = "switch"', nics=1), 40),
        (described(8, 2, 'kind = "switch"', nics=2), 80),
        (described(8, 1, FAT_TREE, nics=1), 20),  # half of 40 at 2:1
        (described(8, 1, FAT_TREE.replace("oversubscription = 2", ""), nics=1), 40),
        (described(8, 4, RAIL.format("spine", 8), nics=4), 160),
        (described(8, 4, RAIL.format("host", 4), nics=4), 160),
        (described(12, 1, DRAGONFLY.format(4, 3, 1), nics=1), 60),  # of its hosts
        (described(64, 1, DRAGONFLY.format(2, 2, 16), nics=1), 40),  # of the one global link
        (described(16, 1, TORUS.format([4, 4])), 40),  # 2 x 4 links
        (described(8, 1, TORUS.format([8])), 10),
        (described(4, 1, TORUS.format([2, 2])), 10),
        (CLUSTERS["links"], 25),
    ],
)
def test_closed_forms(cluster: Cluster, gigabytes: float) -> None:
    assert bisection(cluster) == pytest.approx(gigabytes * 1e9)


def test_pods_that_the_middle_cuts_do_not_hide_what_is_above_them() -> None:
    pods = 'kind = "fat_tree"\nhosts_per_leaf = 1\nleaves_per_pod = 4\nlatency = "1us"\n'
    cluster = described(12, 1, pods + "pod_oversubscription = 4", nics=1)
    # a pod of 4 hosts sends 10 GB/s up, and so do the halves of 6 hosts 15
    assert bisection(cluster) == pytest.approx(15e9)


def test_the_way_that_has_less_counts() -> None:
    cluster = cluster_named("marenostrum5-nine")
    assert bisection(cluster) == pytest.approx(20e9)
