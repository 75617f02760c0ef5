"""A link of an emulated host that is slowed: what a training counts tells which host."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from emulated_slow_link import named, train  # the benchmark is the judge
from test_emulated_hosts import POSSIBLE


@pytest.mark.slow
@pytest.mark.skipif(POSSIBLE.returncode != 0, reason="no network namespace is permitted here")
def test_diff_names_the_host_whose_link_was_slowed(tmp_path: Path) -> None:
    calm = train(tmp_path, "calm", "")
    slow = train(tmp_path, "slow", "link host2 rate/6 at 0s")
    assert named(calm, calm) == []
    ((host, factor),) = named(calm, slow)
    assert host == "host2"
    assert factor > 2  # on a busy machine calm links seem slower than they are
    words = [sys.executable, "-m", "steptime", "diff", str(slow), str(calm), "--json"]
    answer = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    assert [(link["slower_in"], link["hosts"]) for link in answer["slowed_links"]] == [
        ("a", ["host2"])
    ]
