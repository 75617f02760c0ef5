"""By which name a group's backend is known."""

from collections.abc import Iterator

import pytest
import torch.distributed as dist

from steptime.world import compat


@pytest.fixture(params=["gloo", "cpu:gloo", "cpu:gloo,cuda:gloo", "cpu:gloo,cuda:fake"])
def opened(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name by which the default group of this process alone was opened."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  # registers "fake"

    dist.init_process_group(request.param, store=compat.HashStore(), rank=0, world_size=1)
    yield request.param
    dist.destroy_process_group()


def test_a_backend_has_one_name_unless_devices_differ(opened: str) -> None:
    expected = opened if "fake" in opened else "gloo"
    assert compat.backend_of(dist.group.WORLD) == expected
    assert compat.backend_of(dist.new_group([0])) == expected
