"""What a process may still take: of the host, and of the cgroups that it is in."""

import os

import pytest

from steptime import host_memory
from steptime.errors import UsageError


@pytest.fixture
def cgroups(monkeypatch, tmp_path):
    monkeypatch.setattr(host_memory, "CGROUPS", tmp_path)
    return tmp_path


def test_without_limits_it_is_what_the_host_has(cgroups):
    (cgroups / "memory.max").write_text("max\n")
    (cgroups / "memory.current").write_text("900\n")
    assert 1 << 20 < host_memory.available_bytes() < os.sysconf("SC_PHYS_PAGES") * 4096


@pytest.mark.parametrize(
    ("limit", "used"),
    [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")],
)
def test_a_cgroup_leaves_its_limit_less_what_is_used(cgroups, limit, used):
    (cgroups / limit).write_text("5000\n")
    (cgroups / used).write_text("2000\n")
    assert host_memory.available_bytes() == 3000
    host_memory.require_memory(3000, "this", "ask for less")
    with pytest.raises(
        UsageError, match=r"this needs 3.00 kB of memory and this process may take only 3.00 kB"
    ):
        host_memory.require_memory(3001, "this", "ask for less")
