"""What the benchmarks that start ranks share: being one of them."""

import os
from collections.abc import Callable

from steptime.launch import follow_launcher
from steptime.world import detect


def as_rank(work: Callable[[], None], timeout_s: float = 60, backend: str = "gloo") -> None:
    """Call ``work`` as a rank of the world that started this process, on one thread."""
    from steptime.world.join import joined

    world = detect(os.environ)
    assert world
    follow_launcher(os.environ)
    with joined(world, backend, threads=1, timeout_s=timeout_s):
        work()
