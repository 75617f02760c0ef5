"""Cluster: hosts, devices, directed links and routes, and which device each rank is on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from steptime.arrays import Floats, Ints
from steptime.cluster.kernel_parameters import Kernels
from steptime.errors import UsageError

Router: TypeAlias = Callable[[Ints, Ints], Ints]
"""Paths from devices to devices, both of shape (n,): link numbers, shape (n, hops). A path that is
shorter than the longest ends in NO_LINK; one from a device to itself has no link."""

Basis: TypeAlias = Literal["measured", "fitted", "assumed"]

NO_LINK = -1

Generation: TypeAlias = Literal["volta", "ampere", "hopper", "blackwell"]
HostNetwork: TypeAlias = Literal["infiniband", "efa", "efa_without_rdma_write"]
DeviceLinks: TypeAlias = Literal["nvlink", "pcie"]


@dataclass(frozen=True, kw_only=True)
class Nccl:
    """That a cluster's library is NCCL: on GPUs of a generation, links between them, a network."""

    generation: Generation
    links: DeviceLinks = "nvlink"
    network: HostNetwork = "infiniband"


@dataclass(frozen=True, kw_only=True)
class Device:
    """One place for a rank: a GPU, or the part of a host that one rank computes with.

    ``flops``: peak FLOP/s by dtype; ``efficiency``: the fraction of it that large matrix products
    reach. ``memory`` in bytes, ``memory_bandwidth`` and ``reduction`` in bytes/s: at
    ``reduction`` a rank adds up what has arrived, infinite where that hides behind the arrival.
    ``basis``: what makes a step compute at that rate: ``measured`` there, ``fitted`` to measured
    steps, or ``assumed``, be it of the largest matrix product. ``watts``: its power limit.
    ``kernels``: what each of its kernels is priced by; without, all compute at ``efficiency``.
    """

    name: str
    flops: Mapping[str, float]
    memory: float
    memory_bandwidth: float
    efficiency: float = 1.0
    reduction: float = np.inf
    basis: Basis = "assumed"
    watts: float | None = None
    kernels: Kernels | None = None


MESSAGE = "message"
"""The kind of a message among a cluster's calls: one from each rank to the next, all at once."""

POST = "post"
"""The kind of one end of a message: how long posting it keeps a rank from computing, LogGP's o."""


@dataclass(frozen=True, kw_only=True)
class CallTimes:
    """The measured times of a library's calls on ``ranks`` ranks, with nothing else running.

    ``sizes`` of the whole vector in bytes, ascending, and ``seconds``. ``late``: the seconds that
    they take more after computing, when ranks do not arrive together and threads must wake, and
    ``late_beside`` the same where the cores are free because a device beside them computes; empty
    where that was not measured. ``algorithm``: the shipped one that the library is taken to use,
    empty for MESSAGE and POST.

    ``work``: the seconds of a core that each rank needs for it, of all its threads, and ``rest``:
    the seconds that it takes beyond, in which no core works for it; empty where not measured.
    """

    ranks: int
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    algorithm: str = ""
    late: tuple[float, ...] = ()
    late_beside: tuple[float, ...] = ()
    work: tuple[float, ...] = ()
    rest: tuple[float, ...] = ()

    def late_at(self, nbytes: float) -> float:
        """The seconds more after computing for so many bytes, as of the last size beyond it."""
        return float(np.interp(nbytes, self.sizes, self.late)) if self.late else 0.0

    def at(self, nbytes: float) -> float:
        """The seconds for so many bytes, linear between sizes and beyond the last."""
        return self._line(self.seconds, nbytes)

    def work_at(self, nbytes: float) -> float:
        """The seconds of a core for so many bytes, in the same way; 0 where not measured."""
        return self._line(self.work, nbytes) if self.work else 0.0

    def rest_at(self, nbytes: float) -> float:
        """The seconds beyond them, in the same way; all of them where no work was measured."""
        return self._line(self.rest, nbytes) if self.rest else self.at(nbytes)

    def _line(self, values: tuple[float, ...], nbytes: float) -> float:
        if nbytes <= self.sizes[-1] or len(self.sizes) < 2:
            return float(np.interp(nbytes, self.sizes, values))
        slope = (values[-1] - values[-2]) / (self.sizes[-1] - self.sizes[-2])
        return values[-1] + max(slope, 0.0) * (nbytes - self.sizes[-1])


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links: names, bandwidths in bytes/s (inf: never a limit) and latencies in seconds.

    Each is of shape (links,).
    """

    names: tuple[str, ...]
    bandwidth: Floats
    latency: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Fabric:
    """A network of ends: the devices of a host, or the NICs of all hosts.

    ``nodes``: names of the ends, then of switches. ``tails`` and ``heads``: the nodes that each
    link leads from and to, shape (links,); ``labels``: the labels of consecutive links, each with
    their number. ``joints``: nodes joined without a link, (tail, head). ``route`` takes any two
    distinct ends. ``leave`` and ``arrive``: the link that each end also takes when it communicates
    outside this fabric, shape (ends,). ``hop``: whether a message to a NIC of another number passes
    first through the device that has it on its own host; then ``route`` is for NICs of one number
    alone.
    """

    kind: str
    ends: int
    nodes: tuple[str, ...]
    links: Links
    tails: Ints
    heads: Ints
    labels: tuple[tuple[str, int], ...]
    route: Router
    joints: tuple[tuple[int, int], ...] = ()
    leave: Ints | None = None
    arrive: Ints | None = None
    hop: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Cluster:
    """Devices on hosts, and the links between them.

    ``host_of``: the host of each device, shape (devices,). ``speed``: how fast each computes
    relative to ``device``, shape (devices,). ``order``: the devices in the order in which ranks
    take them, shape (places,). ``source``: where the figures come from. ``inside`` is the fabric of
    each host and ``network`` the one between hosts, where there is one: ``links`` are those of the
    hosts in order, then those of the network. ``calls``: measured times of a library's calls there,
    by kind of collective, and of messages as MESSAGE and POST. ``nccl``: where the library is NCCL.
    ``cores``: how many ranks of a host can compute at one time, where they share its cores with one
    another and with what calls work; 0 where each has its own device.
    ``send_buffer``: how many bytes of a message to another host its sender's socket takes before
    they leave; 0 where a message is done for both ends at once. ``unfairness``: by what part the
    weight of a message to another host, in sharing links, is more or less than 1; 0: as max-min.
    """

    name: str
    title: str
    source: str
    device: Device
    host_of: Ints
    speed: Floats
    links: Links
    route: Router
    order: Ints
    inside: Fabric | None = None
    network: Fabric | None = None
    calls: Mapping[str, tuple[CallTimes, ...]] = field(default_factory=dict)
    nccl: Nccl | None = None
    cores: float = 0.0
    send_buffer: float = 0.0
    unfairness: float = 0.0

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return self.host_of.size

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return int(self.host_of.max()) + 1

    def placed(self, ranks: int) -> Ints:
        """The device of each rank, shape (ranks,).

        Raises UsageError when there are more ranks than places.
        """
        if ranks > self.order.size:
            raise UsageError(
                f"{ranks} ranks do not fit on {self.name}, which has {self.order.size} places for "
                "them: ask for fewer ranks or name a larger cluster"
            )
        return self.order[:ranks]

    def paths(self, src: ArrayLike, dst: ArrayLike) -> Ints:
        """The links from each device of ``src`` to that of ``dst``, shape as of Router."""
        return self.route(np.asarray(src, np.int32), np.asarray(dst, np.int32))
