"""What the benchmarks of emulated clusters share: a cluster of their own, and rows as CSV."""

import csv
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any


def cluster_text(
    title: str,
    hosts: int,
    bandwidth: str,
    devices: int = 1,
    inside_bandwidth: str = "1GB/s",
    nics: int = 1,
) -> str:
    """The cluster file of hosts of so many slow cores, with NICs of ``bandwidth``, on a switch."""
    inside = f'[inside]\nkind = "switch"\nbandwidth = "{inside_bandwidth}"\nlatency = "0us"\n'
    return f"""
title = "{title}"
source = "a test of faults"
[device]
name = "a core"
flops = {{ fp32 = "50GFLOP/s" }}
memory = "2GB"
memory_bandwidth = "10GB/s"
[host]
count = {hosts}
devices = {devices}
{inside if devices > 1 else ""}[nic]
per_host = {nics}
bandwidth = "{bandwidth}"
latency = "0us"
[network]
kind = "switch"
"""


def write_csv(path: Path, rows: Sequence[Any]) -> None:
    """Write dataclasses of one type, at least one, with the names of their fields above."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(rows[0])])
        writer.writerows(astuple(row) for row in rows)
