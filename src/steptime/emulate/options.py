"""What is asked of an emulated cluster: frozen, and quick to import."""

from dataclasses import dataclass

from steptime.emulate.plan import Start


@dataclass(frozen=True, kw_only=True)
class EmulateOptions:
    """How a command runs on an emulated cluster."""

    ranks: int | None = None
    """Ranks of the command, as the cluster places them; default: one on every place."""

    start: Start | None = None
    """ranks: start the command as each rank, with torchrun's variables; hosts: once on each host,
    as torchrun wants it, which learns of the others by itself; once: on host 0 alone, from where
    mpirun reaches the others. Default: by what the command is."""

    time_dilation: float = 1.0
    """By what links are slower than the cluster's. Clocks of steptime's ranks go slower by as much,
    so that what they tell is the cluster's time."""

    congestion_control: str | None = None
    """TCP's congestion control on every host, of those that the kernel lets namespaces have; not
    the one this machine is set to. Default: cubic, else reno."""

    rails: int = 1
    """The interfaces, eth0 and so on, among which a host's link is split evenly, each on a switch
    of its own; no more than a host has NICs. The backend steptime uses all, others eth0 alone."""

    faults: str = ""
    """What happens to links meanwhile: host3 down at 10s for 5s; link host1 rate/10 at 20s; loss
    host2 1% at 30s. In seconds of this machine since the command was started."""
