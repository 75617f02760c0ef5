"""Ranks that wait for one another in other places, or for groups of other sizes."""

import json
from pathlib import Path

import pytest

from forked import forked

METHOD = """
import os
import torch.distributed as dist
rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
methods = dict(
    port=f"tcp://127.0.0.1:{{port + rank}}",
    file=f"file://{folder}/meet-{{rank}}",
    one=f"tcp://127.0.0.1:{{port}}",
)
world = 2 + (rank if {way!r} == "one" else 0)
dist.init_process_group("gloo", init_method=methods[{way!r}], rank=rank, world_size=world)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "kind", "words"),
    [
        ("port", "mismatch", "never meet in init_process_group: rank 0 waits at port"),
        ("file", "mismatch", "never meet in init_process_group: rank 0 waits at the file"),
        # Who waits for two ranks may take the other one, which waits for three, and go on alone.
        (
            "one",
            "deadlock|missing",
            "for groups of other sizes: rank 0 for one of 2|for rank 0, which ended",
        ),
    ],
)
def test_ranks_that_never_meet_are_told(way: str, kind: str, words: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(METHOD.format(way=way, folder=tmp_path))
    command = ["check", "--ranks", "2", "--json", "--out", str(tmp_path / "run"), str(script)]
    ended = forked(*command, folder=tmp_path)
    assert ended.code == 1
    (found,) = json.loads(ended.out.splitlines()[-1])["findings"]
    assert found["kind"] in kind.split("|")
    assert any(each in found["what"] for each in words.split("|"))
