"""Library: NCCL as it runs on one generation of GPUs and one network between hosts."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats
from steptime.cluster import Nccl
from steptime.simulate.nccl.constants import Constants, constants

LL, LL128, SIMPLE = range(3)
"""The protocols, by their places in every array of three."""

PROTOCOLS = ("LL", "LL128", "Simple")


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps:
    """The latencies of an algorithm by protocol, in seconds, each shape (3,).

    ``base``: once; ``near``: a step within a host; ``far``: one between hosts.
    """

    base: Floats
    near: Floats
    far: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Library:
    """NCCL's constants for a cluster, as ``constants.toml`` has them.

    ``call_s``: what every call costs besides its algorithm. ``ring`` and ``tree``: their latencies;
    those of Simple are as measured. ``ring_rate``, ``nvls_rate`` and ``message_rate``: bytes/s
    within a host; ``wire``: bytes/s to other hosts for each device. ``nvls_s``, ``nvls_far_s``:
    NVLS's latency, and that of a step between hosts. ``nvls_ranks``: the fewest ranks of a host
    that it serves, inf where there is none. ``ll_near`` and ``ll_far``: the most that LL moves,
    within a host, between two and between more, in bytes/s. ``allowed``: whether each protocol may
    run within a host and between hosts, shape (2, 3). ``channels``: blocks of a call, and
    ``share``: the part of the device's multiprocessors that they hold. ``trees``: whether it runs
    trees, which ``NCCL_ALGO=Ring`` forbids.
    """

    constants: Constants
    call_s: float
    ring: Steps
    tree: Steps
    ring_rate: float
    nvls_rate: float
    message_rate: float
    wire: float
    nvls_s: float
    nvls_far_s: float
    nvls_ranks: float
    ll_near: float
    ll_far: tuple[float, float]
    allowed: Floats
    channels: float
    share: float
    trees: bool = True

    def number(self, name: str) -> float:
        """The constant of that name."""
        return self.constants[name].number

    def by_protocol(self, name: str) -> Floats:
        """A constant of each protocol, shape (3,)."""
        return np.array(self.constants[name].values)


def library_of(
    nccl: Nccl,
    *,
    inside: float,
    inside_s: float,
    between: float,
    between_s: float,
    known: Constants | None = None,
) -> Library:
    """The library on links of these rates, in bytes/s, and latencies of whole paths, in seconds.

    ``between`` is what each device has of its host's NICs. ``known``: other constants than those
    shipped, to fit them. Latencies scale with those of the links.
    """
    known = constants() if known is None else known
    gpu, network = nccl.generation, nccl.network
    near = inside_s / known[f"{gpu}.path_s"].number
    far = between_s / known[f"{network}.path_s"].number
    extra = known[f"{network}.hop_s"].number
    settle = known["settle"].number
    slow = np.array([1.0, 1.0, settle])

    def steps(kind: str) -> Steps:
        within = np.array(known[f"{kind}_{nccl.links}_s"].values)
        across = np.array(known[f"{kind}_net_s"].values)
        return Steps(
            base=slow * np.array(known[f"{kind}_base_s"].values),
            near=slow * near * within,
            far=slow * far * (across + extra),
        )

    nvls = f"{gpu}.nvls" in known and nccl.links == "nvlink"
    ll128 = nccl.links == "nvlink"
    far_ll = known["ll_between"].values
    channels = known[f"{gpu}.channels"].number
    return Library(
        constants=known,
        call_s=known[f"{gpu}.call_s"].number,
        ring=steps("ring"),
        tree=steps("tree"),
        ring_rate=inside * known[f"{gpu}.ring"].number,
        nvls_rate=inside * known[f"{gpu}.nvls"].number if nvls else 0.0,
        message_rate=inside * known["messages"].number,
        wire=between * known[f"{network}.wire"].number,
        nvls_s=settle * known["nvls_s"].number,
        nvls_far_s=settle * far * (known["nvls_net_s"].number + extra),
        nvls_ranks=known[f"{gpu}.nvls_ranks"].number if nvls else np.inf,
        ll_near=known[f"{gpu}.ll"].number,
        ll_far=(far_ll[0], far_ll[1]),
        allowed=np.array(
            [[1.0, ll128, 1.0], [1.0, ll128 and known[f"{network}.ll128"].number, 1.0]]
        ),
        channels=channels,
        share=channels / known[f"{gpu}.multiprocessors"].number,
    )
