"""A kind of fabric is one file that the package leads to."""

import subprocess
import sys

STRING = '''
"""A string: hosts in a row, each joined to the next."""

import numpy as np

from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.links import network_links
from steptime.section import Section


def string(section, hosts):
    one = {"bandwidth": section.text("bandwidth"), "latency": section.text("latency")}
    links = [{"between": [f"host{n}", f"host{n + 1}"], **one} for n in range(hosts - 1)]
    return network_links(Section({"links": links}, "string"), hosts)


FABRIC = FabricKind("string", between_hosts=string)
'''
CLUSTER = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "1GiB"
memory_bandwidth = "1GB/s"
[host]
count = 4
[network]
kind = "string"
bandwidth = "1GB/s"
latency = "1us"
"""
SCRIPT = """
import sys
from pathlib import Path
from importlib import import_module
import_module("steptime.cluster.fabrics").__path__.append("foreign")
from steptime.cluster import cluster_named
cluster = cluster_named("own.toml")
print(cluster.hosts, cluster.network.kind)
from steptime.cli import main
sys.argv[1:] = ["cluster", "show", "own.toml"]
sys.exit(main())
"""


def test_a_file_that_the_package_leads_to_is_a_kind_of_network(tmp_path):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "string.py").write_text(STRING)
    (tmp_path / "own.toml").write_text(CLUSTER)
    (tmp_path / "there.py").write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, "there.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    first, *shown = ended.stdout.splitlines()
    assert first == "4 links"
    assert any("4 hosts" in line for line in shown)
