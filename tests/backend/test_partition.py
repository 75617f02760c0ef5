"""Two hosts whose link breaks: every rank raises and ends, also where the store is out of reach."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PARTITION = Path(__file__).parents[2] / "benchmarks" / "partition.py"
CUTS = 5
ALONE = ("unshare", "--user", "--map-root-user", "--net", "ip", "link", "add", "type", "veth")


@pytest.mark.skipif(
    subprocess.run(ALONE, capture_output=True, check=False).returncode != 0,
    reason="making a network namespace is not permitted here",
)
@pytest.mark.slow
def test_every_rank_raises_and_ends_when_the_link_between_hosts_breaks() -> None:
    ended = subprocess.run(
        [sys.executable, PARTITION, "--cuts", str(CUTS), "--timeout", "8", "--words"],
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert "hangs" not in ended.stdout, ended.stdout
    told = re.findall(
        r"rank (\d): LostContactError: rank (\d) reached the timeout of 8 s waiting for rank (\d) ",
        ended.stdout,
    )
    assert [rank for rank, _, _ in told] == ["0", "1", "2", "3"] * CUTS, ended.stdout + ended.stderr
    for rank, waiting, named in told:  # the first on its side speaks for both
        assert (rank in "01") == (waiting in "01") != (named in "01"), ended.stdout
