"""Scripts that are slow though right: each is told with what it costs, and its twin is not.

Here are the habits that cost most of a step, however busy the machine is; benchmarks/gallery.py
judges the others.
"""

from pathlib import Path

import pytest

from observed_scripts import findings_at_last, findings_of, marked
from steptime.check.finding import Finding, FindingKind
from steptime.check.judges import imbalance, unequal_work

TRAINING = """
from contextlib import nullcontext
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import time
habit = {habit!r}
by_hand = habit == "tiny"
width, layers = (8, 40) if by_hand else (256, 6)
net = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))
model = net if by_hand else DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        time.sleep(0.05 if habit == "data" else 0)
        return torch.full((width,), (7 * index + 3 * rank) % 61 / 10)
micro_batches = 4 if "accumulated" in habit else 1
loader = torch.utils.data.DataLoader(Samples(), batch_size=8)
for batch in loader:  # loads
    for micro in range(micro_batches):
        quiet = habit == "accumulated rightly" and micro < micro_batches - 1
        with model.no_sync() if quiet else nullcontext():
            model(batch).square().mean().backward()  # backward
    for parameter in net.parameters() if by_hand else ():
        dist.all_reduce(parameter.grad)  # reduces
    optimizer.step()
    optimizer.zero_grad()
    if habit == "barrier":
        for _ in range(40):
            dist.barrier()  # barrier
    if habit == "groups":
        for _ in range(10):
            dist.new_group()  # groups
dist.destroy_process_group()
"""


def _slow(folder: Path, habit: str) -> list[Finding]:
    found = findings_of(folder, TRAINING.format(habit=habit))
    assert {one.kind for one in found} <= {FindingKind.SLOW}
    return found


@pytest.mark.parametrize(
    ("habit", "line"),
    [
        ("tiny", "reduces"),
        ("data", "loads"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ("barrier", "barrier"),
                ("groups", "groups"),
                ("accumulated wrongly", "backward"),
            )
        ),
    ],
)
def test_a_slow_habit_is_told_at_its_line(tmp_path: Path, habit: str, line: str) -> None:
    # The loader may be late, too, where others work on the same cores.
    (found,) = (
        one for one in _slow(tmp_path, habit) if line == "loads" or marked(one) != {"loads"}
    )
    assert marked(found) == {line}
    assert found.gain is not None
    assert 0 < found.gain < 1


@pytest.mark.parametrize(
    "habit", ["none", pytest.param("accumulated rightly", marks=pytest.mark.slow)]
)
def test_a_usual_training_has_no_slow_habit(tmp_path: Path, habit: str) -> None:
    # That its loader is late where others work on the same cores is no habit of the script.
    assert [one for one in _slow(tmp_path, habit) if marked(one) != {"loads"}] == []


BUCKETS = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
net = nn.Sequential(*(nn.Linear(32, 32) for _ in range(60)))
options = {options}
model = DistributedDataParallel(net, **options)  # wraps
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(12):
    model(torch.ones(2, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def test_buckets_of_single_layers_are_told(tmp_path: Path) -> None:
    all_found = findings_of(tmp_path, BUCKETS.format(options={"bucket_cap_mb": 0.001}))
    (found,) = (one for one in all_found if "buckets" in one.what)
    assert marked(found) == {"wraps"}
    assert "reduces 60 buckets a step, of 4224 bytes on average, where 1 would" in found.what
    assert found.gain is not None
    assert 0 < found.gain < 1


@pytest.mark.slow
def test_usual_buckets_are_no_habit(tmp_path: Path) -> None:
    found = findings_of(tmp_path, BUCKETS.format(options={}))
    assert not [one for one in found if "buckets" in one.what]


SUMS = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
class Norm(nn.Module):
    def forward(self, batch):
        return batch - summed(batch.mean(0)) / size
def summed(mean):
    mean = mean.detach()
    for _ in range(40 if {within} else 0):
        dist.all_reduce(mean)  # sums
    return mean
net = nn.Sequential(nn.Linear(16, 16), Norm())
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
import time
for step in range(8):
    time.sleep(0.005)
    loss = model(torch.ones(2, 16)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    for _ in range(0 if {within} else 40):
        dist.all_reduce(loss.detach())  # sums
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("within", [True, False])
def test_what_a_module_sums_up_is_no_host_synchronisation(tmp_path: Path, within: bool) -> None:
    found = findings_of(tmp_path, SUMS.format(within=within))
    told = [one for one in found if "moves next to nothing" in one.what]
    assert [marked(one) for one in told] == ([] if within else [{"sums"}])


ADVERSARIES = """
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
pair = [DistributedDataParallel(torch.nn.Linear(600, 600)) for _ in range(2)]
optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in pair]
for step in range(6):
    for model, optimizer in zip(pair, optimizers):
        model(torch.randn(4, 600)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_models_that_step_in_turn_accumulate_nothing(tmp_path: Path) -> None:
    found = findings_of(tmp_path, ADVERSARIES)
    assert not [one for one in found if "only their sum is used" in one.what]


UNLIKE = """
from torch.nn.parallel import DistributedDataParallel
import time
torch.set_num_threads(1)
habit, width = {habit!r}, 1024
net = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.ReLU(), torch.nn.Linear(width, 32))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(12):
    much = rank == 1 if habit == "one has more" else step % 2 == rank
    rows = 4096 if much and habit != "one sleeps" else 64
    model(torch.randn(rows, 32)).square().mean().backward()  # backward
    if rank == 0 and habit == "one sleeps":
        time.sleep(0.05)  # sleeps
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("habit", "ranks", "lines", "words"),
    [
        ("one sleeps", [0], {"sleeps"}, "forward and what the script does besides take"),
        ("one has more", [1], set[str](), "there backward takes"),
        ("in turn", [0, 1], set[str](), "now one the most and now another"),
    ],
)
def test_work_that_is_not_shared_evenly_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    habit: str,
    ranks: list[int],
    lines: set[str],
    words: str,
) -> None:
    # Beside other work a step takes longer, and what ranks lose by one another is less of it.
    for judge in (imbalance, unequal_work):
        monkeypatch.setattr(judge, "_LEAST_GAIN", 0.01)
    found = findings_at_last(
        tmp_path, UNLIKE.format(habit=habit), lambda found: any(words in one.what for one in found)
    )
    (told,) = (one for one in found if words in one.what)
    assert (told.ranks, marked(told)) == (ranks, {"backward", *lines})
    assert told.gain is not None
    assert 0.01 <= told.gain < 1
