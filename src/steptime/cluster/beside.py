"""Cores beside a device: what calls take where these cores do not compute themselves."""

from dataclasses import replace

from steptime.cluster.cluster import POST, Cluster


def computing_beside(cluster: Cluster) -> Cluster:
    """The cluster where a device beside its cores computes, as ranks that sleep stand in for.

    Its ranks do not have to wait for a core after computing, and posting a message keeps none from
    computing.
    """
    calls = {
        kind: tuple(replace(one, late=one.late_beside or one.late) for one in of_kind)
        for kind, of_kind in cluster.calls.items()
        if kind != POST
    }
    return replace(cluster, calls=calls)
