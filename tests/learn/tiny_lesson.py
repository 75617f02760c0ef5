"""A lesson of each kind of part, whose commands take a second."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steptime.learn import source

FENCE = "```"
TINY = """# Two ranks

~~~lesson
question = "What does a ring of two ranks send?"
minutes = 1
~~~

A ring of two ranks is a ring still: each rank sends to its right neighbour, and that happens to be
the left one too. Half of the vector goes each way, and then the sums come back.

~~~file note.py
print("a script of the lesson")
~~~

~~~ask rounds
ask = "How many rounds does it take?"
answer = "ring.algorithms[0].rounds | length"
unit = "rounds"
because = "One to add up and one to pass on, for {{ ring.algorithms[0].ranks }} ranks."
hints = ["One round adds up."]
~~~

~~~ask share
ask = "How much of its vector does a rank send in a round?"
choices = ["all of it", "half of it"]
answer = "'half of it' if ring.algorithms[0].chunks == 2 else 'all of it'"
because = "There are {{ ring.algorithms[0].chunks }} chunks."
~~~

~~~run ring
steptime show ring --ranks 2 --bytes 1MB
~~~

~~~claim
text = "Each rank sends {{ ring.algorithms[0].bytes_sent_per_rank[0] }} bytes."
holds = "ring.algorithms[0].bytes_sent_per_rank == [1000000, 1000000]"
~~~

~~~claim
text = "It took no time."
holds = "ring.algorithms[0].time_s == 0"
timed = true
~~~

~~~exercise mine
file = "mine.py"
line = "steptime verify mine.py --ranks 2"
passes = "mine.ok"
wrong = "It has {{ mine.results[0].rounds }} round, and is wrong."
hints = ["Add reduce=True."]
~~~

~~~starter mine
import numpy as np
from steptime.collectives import algorithm, send


@algorithm("all_reduce", chunks=lambda: 1)
def mine(ranks):
    rank = np.arange(ranks)
    yield send(rank, (rank + 1) % ranks, 0)
~~~

~~~solution mine
import numpy as np
from steptime.collectives import algorithm, send


@algorithm("all_reduce", chunks=lambda: 1)
def mine(ranks):
    rank = np.arange(ranks)
    yield send(rank, (rank + 1) % ranks, 0, reduce=True)
~~~

That is all.
""".replace("~~~", FENCE)
NUMBERS: dict[str, Any] = {
    "algorithms": [
        {
            "ranks": 2,
            "chunks": 2,
            "rounds": [[], []],
            "time_s": 1.0,
            "bytes_sent_per_rank": [1_000_000, 1_000_000],
        }
    ],
    "exit_code": 0,
}
"""What its command ``ring`` gives, as far as the lesson looks."""


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of lessons, with the tiny one as its seventh, in place of those that are shipped."""
    folder = tmp_path / "lessons"
    folder.mkdir()
    (folder / "07-tiny.md").write_text(TINY)
    monkeypatch.setattr(source, "_FOLDER", folder)
    source.all_lessons.cache_clear()
    yield folder
    source.all_lessons.cache_clear()
