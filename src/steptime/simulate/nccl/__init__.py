"""What NCCL's calls take, in closed form: latency and bandwidth by algorithm and protocol."""

from steptime.simulate.nccl.network import (
    Network,
    call_seconds,
    choices,
    held_share,
    memory_bytes,
    message_seconds,
    network_of,
    seconds_on_hosts,
)

__all__ = [
    "Network",
    "call_seconds",
    "choices",
    "held_share",
    "memory_bytes",
    "message_seconds",
    "network_of",
    "seconds_on_hosts",
]
