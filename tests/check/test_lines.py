"""Where in its loop a rank's time goes: the line that others wait for is told."""

from pathlib import Path

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

BODY = """
import time
from torch.nn.parallel import DistributedDataParallel

def draw(seconds):
    time.sleep(seconds)  # sleeps

class Trainer:
    def __init__(self):
        self.model = DistributedDataParallel(torch.nn.Linear(8, 8))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self):
        self.model(torch.randn(4, 8)).square().mean().backward()  # waits
        self.optimizer.step()
        self.optimizer.zero_grad()

    def fit(self):
        for _ in range(20):
            self.step()
            if rank == 1:
                draw(0.03)  # draws

def before():
    time.sleep(0.5)

before()
Trainer().fit()
dist.destroy_process_group()
"""


def test_the_line_that_takes_a_rank_longer_than_the_others_is_named(tmp_path: Path) -> None:
    found = findings_of(tmp_path, BODY)
    (late,) = (one for one in found if one.kind is FindingKind.SLOW and "comes last" in one.what)
    assert list(late.ranks) == [1]
    assert marked(late) == {"draws", "sleeps", "waits"}
    lines = BODY.splitlines()
    first = next(number for number, line in enumerate(lines) if "# draws" in line)
    assert late.places[0].rank == 1
    assert (
        Path(late.places[0].file).read_text().splitlines()[late.places[0].line - 1] == lines[first]
    )
