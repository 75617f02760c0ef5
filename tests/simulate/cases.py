"""Random steps on random clusters, for what must hold of any simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from cluster.descriptions import DRAGONFLY, FAT_TREE, RAIL, TORUS, described
from simulate.networks import racks, star
from simulate.programs import collective, compute, program, recv, send
from steptime.cluster import NO_LINK, Cluster, Links
from steptime.collectives import all_algorithms
from steptime.program import Collective, Op, Program, Recv, Send, Wait
from steptime.simulate.simulation import Fidelity
from steptime.timeline import Phase
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Transformer

CLUSTERS = (
    lambda n: described(1, n + 1),
    lambda n: described(n, 2, 'kind = "switch"', nics=1),
    lambda n: described(n + 1, 2, FAT_TREE, nics=2),
    lambda n: described(n + 1, 2, RAIL.format("spine", 2), nics=2),
    lambda n: described(n, 4, RAIL.format("host", 1), nics=2),
    lambda n: described(2 * n, 1, DRAGONFLY.format(n, 1, 2), nics=1),
    lambda n: described(2 * n, 1, TORUS.format([2, n])),
    lambda n: star(n + 1, 10e9, 2e-6, reduction=50e9),
    lambda n: racks(2, n, 10e9, 2e-6, trunk=10e9),
)
"""Clusters of size n = 2, 3, 4."""
MESHES = [
    mesh
    for tensor in (1, 2, 3)
    for data in (1, 2, 3, 4)
    for pipeline in (1, 2)
    if (mesh := Mesh(tensor=tensor, data=data, pipeline=pipeline)).ranks <= 8
]
MODEL = Transformer(name="tiny", layers=4, hidden=48, heads=6, context=32, vocabulary=100)
RINGS = dict.fromkeys(("all_reduce", "reduce_scatter", "all_gather"), "ring")
SECONDS = st.sampled_from([0.0, 1e-6, 2e-5, 1e-4])
NBYTES = st.sampled_from([0, 1, 1000, 10**5, 10**6])
STREAMS = st.sampled_from(["compute", "comm", "more"])
PHASES = st.sampled_from([Phase.COMPUTE, Phase.UPDATE, Phase.OTHER])


@dataclass(frozen=True)
class Case:
    """A step of a program on a cluster; ``algorithms`` of collectives, else the fastest."""

    program: Program
    cluster: Cluster
    fidelity: Fidelity
    algorithms: Mapping[str, str]


@st.composite
def cases(draw, fidelity=None):
    step = draw(st.one_of(listed(), listed(), hybrids()))
    chosen = fidelity or draw(st.sampled_from(["message", "collective"]))
    algorithms = draw(st.sampled_from([RINGS, RINGS, RINGS, {}]))
    return Case(step, draw(clusters(step.ranks)), chosen, algorithms)


@st.composite
def clusters(draw, fewest):
    """Clusters of at least so many devices, of which one may be slower."""
    cluster = draw(st.sampled_from(CLUSTERS))(draw(st.integers(2, 4)))
    if cluster.devices < fewest:
        cluster = star(fewest, 10e9, 2e-6)
    speed = np.ones(cluster.devices)
    speed[draw(st.integers(0, cluster.devices - 1))] = draw(st.sampled_from([1.0, 0.5]))
    return replace(cluster, speed=speed)


@st.composite
def hybrids(draw):
    """Steps of a tiny transformer in hybrid parallelism."""
    mesh = draw(st.sampled_from(MESHES))
    strategies = ["replicated", "sharded", "overlapped", "overlapped_sharded"]
    strategies += ["zero2", "zero3"] * (mesh.pipeline == 1)
    return Hybrid(
        MODEL,
        mesh=mesh,
        micro_batches=draw(st.integers(1, 4)),
        schedule=draw(st.sampled_from(["gpipe", "1f1b"])),
        strategy=draw(st.sampled_from(strategies)),
        bucket_bytes=draw(st.sampled_from([10_000, 1 << 20])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        sequence_parallel=mesh.tensor == 2 and draw(st.booleans()),
        dtype="fp32",
    ).program


@st.composite
def listed(draw):
    """Steps of two classes of ranks, which call the same and compute for unlike times."""
    mesh = draw(st.sampled_from(MESHES))
    axes = {name: size for name, size in mesh.sizes.items() if size > 1} or {"data": 1}
    lists: tuple[list[Op], list[Op]] = ([], [])
    for number in range(draw(st.integers(1, 8))):
        name, places = f"op {number}", len(lists[0])
        after = tuple(draw(st.sets(st.integers(-1, places - 1), max_size=2)))
        kind = draw(st.sampled_from(["compute", "wait", "collective", "shift"]))
        stream = draw(STREAMS)
        if kind == "compute":
            phase = draw(PHASES)
            for ops in lists:
                ops.append(compute(name, draw(SECONDS), *after, phase=phase, stream=stream))
            continue
        if kind == "wait":
            same = [Wait(name=name, after=after, stream=stream)]
        elif kind == "shift" and mesh.ranks > 1:
            axis, nbytes = draw(st.sampled_from(sorted(axes))), draw(NBYTES)
            same = [
                send(f"{name} to", nbytes, *after, axis=axis, stream="out"),
                recv(f"{name} from", nbytes, *after, axis=axis, stream="in"),
            ]
        else:
            same = [draw(collectives(name, axes, after, stream))]
        for ops in lists:
            ops += same
    class_of = [draw(st.integers(0, 1)) for _ in range(mesh.ranks)]
    return program(*map(tuple, lists), class_of=class_of, **axes)


@st.composite
def collectives(draw, name, axes, after, stream):
    group = tuple(sorted(draw(st.sets(st.sampled_from(sorted(axes)), min_size=1))))
    members = int(np.prod([axes[axis] for axis in group]))
    serving = [one for one in all_algorithms() if one.serves(members)]
    chosen = draw(st.sampled_from(serving))
    kind = chosen.collective.name
    nbytes = 0 if kind == "barrier" else draw(NBYTES)
    algorithm = draw(st.sampled_from([chosen.name, chosen.name, ""]))
    root = draw(st.integers(0, members - 1))
    return collective(
        name, kind, nbytes, *after, algorithm=algorithm, group=group, stream=stream, root=root
    )


def moving(step: Program, factor: int) -> Program:
    """The step with so many times the bytes in every call."""
    lists = (
        tuple(
            replace(op, nbytes=factor * op.nbytes)
            if isinstance(op, Collective | Send | Recv)
            else op
            for op in ops
        )
        for ops in step.lists
    )
    return replace(step, lists=tuple(lists))


def renamed(cluster: Cluster, there, number) -> Cluster:
    """The cluster with device ``d`` as ``there[d]`` and link ``k`` as ``number[k]``."""
    back, of_link = np.argsort(there).astype(np.int32), np.argsort(number)

    def route(src, dst):
        old = cluster.route(back[src], back[dst])
        return np.where(old == NO_LINK, NO_LINK, number[old]).astype(np.int32)

    links = cluster.links
    return replace(
        cluster,
        links=Links(
            tuple(links.names[k] for k in of_link),
            links.bandwidth[of_link],
            links.latency[of_link],
        ),
        route=route,
        host_of=cluster.host_of[back],
        speed=cluster.speed[back],
        order=there[cluster.order],
    )


def twice(cluster: Cluster, ranks: int) -> Cluster:
    """Two such clusters side by side, no link between: places for so many ranks on each."""
    devices, links = cluster.devices, cluster.links
    count = len(links.names)

    def route(src, dst):
        path = cluster.route(src % devices, dst % devices)
        return np.where(path == NO_LINK, NO_LINK, path + (src // devices)[:, None] * count)

    both = Links(
        (*links.names, *(f"second {name}" for name in links.names)),
        np.tile(links.bandwidth, 2),
        np.tile(links.latency, 2),
    )
    return replace(
        cluster,
        links=both,
        route=route,
        host_of=np.append(cluster.host_of, cluster.host_of + cluster.hosts),
        speed=np.tile(cluster.speed, 2),
        order=np.append(cluster.order[:ranks], cluster.order[:ranks] + devices),
    )
