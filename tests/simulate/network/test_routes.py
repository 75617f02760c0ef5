"""The cache in front of a cluster's router."""

import numpy as np
import pytest

from steptime.cluster import NO_LINK, cluster_named
from steptime.simulate.network import routes


@pytest.mark.parametrize("most_held", [1 << 20, 10])
def test_what_is_remembered_is_what_the_cluster_says(monkeypatch, most_held):
    monkeypatch.setattr(routes, "_MOST_HELD", most_held)
    cluster = cluster_named("dgx-h100-pod")
    known = routes.Routes(cluster)
    draw = np.random.default_rng(0)
    asked = [draw.integers(0, cluster.devices, (2, 7)).astype(np.int32) for _ in range(5)]
    asked += [asked[0][::-1].copy(), asked[0][:, :3].copy()]  # the other way, and some of them
    for src, dst in asked * 3:
        paths, latency = known(src, dst)
        expected = cluster.paths(src, dst)
        width = expected.shape[1]
        assert (paths[:, :width] == expected).all()
        assert (paths[:, width:] == NO_LINK).all()
        costs = np.where(expected == NO_LINK, 0.0, cluster.links.latency[expected])
        assert latency == pytest.approx(costs.sum(axis=1), rel=1e-12)
