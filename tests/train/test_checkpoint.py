import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from ranks import on_ranks
from steptime.errors import SteptimeError, UsageError
from steptime.strategies import Strategy, live_strategies
from steptime.train.checkpoint import load_checkpoint, read_checkpoint_info, save_checkpoint
from steptime.train.config import gpt2
from steptime.train.data import Batches
from steptime.train.keeping.marker import state_name, summed
from steptime.train.keeping.pieces import Piece, whole
from steptime.train.keeping.state_file import read_state_file
from steptime.train.llmc import read_checkpoint, read_header
from steptime.train.loop import training_steps
from steptime.train.options import TrainOptions
from steptime.train.precision import LossScale, precision_of
from steptime.train.tokens import Tokens
from steptime.train.training import Training, build_training, new_model
from steptime.units import Size
from steptime.workloads.models import Transformer
from steptime.workloads.precision import DtypeName

TINY = gpt2(layers=2, heads=2, hidden=16, context=8, vocabulary=300)
STEPS, HALF = 6, 3
SAME = [(name, "fp32") for name in live_strategies()] + [
    ("server", "bf16"),
    ("replicated", "bf16"),
    ("overlapped_sharded", "bf16"),
    ("sharded", "fp16"),
]
FP16_START = LossScale(scale=2.0**21, patience=2)  # overflows at first, grows again soon after


@dataclass(frozen=True)
class Outcome:
    """Of one rank: its losses, and what it held at the end, in the order of the flat buffers."""

    losses: list[float]
    parameters: NDArray[np.float32]
    masters: NDArray[np.float32]
    updates: list[int]
    scale: LossScale


def start(
    strategy: Strategy | str,
    precision: DtypeName = "fp32",
    seed: int = 1,
    config: Transformer = TINY,
) -> Training:
    """A training whose data does not depend on ``seed``, but whose initial weights do."""
    if isinstance(strategy, str):
        strategy = live_strategies()[strategy]
    text = np.random.default_rng(0).integers(0, config.vocabulary, 4000).astype(np.uint16)
    tokens = Tokens((text,), (text[:100],), config.vocabulary, "random tokens")
    ranks = dist.get_world_size()
    return build_training(
        new_model(config, seed, torch.device("cpu")),
        Batches(tokens, config.context, batch=6, rank=dist.get_rank(), ranks=ranks, seed=7),
        strategy,
        precision_of(precision, "fp32"),
        TrainOptions(batch=6, bucket=Size("1KiB")),
        peak_learning_rate=3e-3,
        steps=STEPS,
    )


def go_on(
    training: Training, first: int, steps: int, scale: LossScale | None = None
) -> tuple[list[float], LossScale]:
    """Train from step ``first``; the losses, and the loss scale of the step after the last."""
    losses = []
    for outcome in islice(training_steps(training, first, scale), steps):
        losses.append(float(outcome.loss))
        scale = outcome.loss_scale
    assert scale
    return losses, scale


def held(training: Training, losses: list[float], scale: LossScale) -> Outcome:
    training.sync.settle()
    segments = [s for bucket in training.optimizer.segments for s in bucket]
    masters = [np.empty(0, np.float32), *(s.weight.numpy().copy() for s in segments)]
    return Outcome(
        losses,
        training.flat.parameters.float().numpy().copy(),
        np.concatenate(masters),
        sorted({int(s.step) for s in segments}),
        scale,
    )


def straight_and_resumed(folder: Path, precisions: list[tuple[str, DtypeName]]) -> list[object]:
    """For each strategy and precision, six steps at once and three plus three."""
    outcomes = []
    for name, precision in precisions:
        scale = FP16_START if precision == "fp16" else None
        straight = start(name, precision)
        losses, end = go_on(straight, 0, STEPS, scale)
        save_checkpoint(folder / f"{name}-{precision}-{STEPS}", straight, STEPS, end)

        checkpoint = folder / f"{name}-{precision}-{HALF}"
        interrupted = start(name, precision)
        _, scale = go_on(interrupted, 0, HALF, scale)
        save_checkpoint(checkpoint, interrupted, HALF, scale)

        resumed = start(name, precision, seed=2)
        step, scale = load_checkpoint(checkpoint, resumed)
        assert step == HALF
        assert_model_file_matches(checkpoint, resumed)
        rest, resumed_end = go_on(resumed, step, STEPS - HALF, scale)
        outcomes.append((held(straight, losses, end), held(resumed, rest, resumed_end)))
    return outcomes


def assert_model_file_matches(folder: Path, training: Training) -> None:
    stored = read_checkpoint(folder / "model.bin")
    for name, parameter in training.model.named_parameters():
        assert torch.equal(stored.tensors[name].float(), parameter.detach().float())


def resume(folder: Path, name: str, precision: DtypeName) -> list[float]:
    training = start(name, precision, seed=2)
    step, scale = load_checkpoint(folder, training)
    return go_on(training, step, STEPS - step, scale)[0]


@dataclass(frozen=True)
class Saved:
    folder: Path
    outcomes: dict[tuple[str, str], list[tuple[Outcome, Outcome]]]

    def checkpoint(self, name: str, step: int = HALF) -> Path:
        return self.folder / f"{name}-{step}"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """What two ranks made of every case, and the checkpoints they left."""
    folder = tmp_path_factory.mktemp("saved")
    of_ranks = on_ranks(2, straight_and_resumed, folder, folder, SAME)
    return Saved(folder, dict(zip(SAME, zip(*of_ranks, strict=True), strict=True)))


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def checkpoint(saved: Saved, tmp_path: Path) -> Path:
    """A copy, to be damaged, of what two ranks saved after three steps."""
    return shutil.copytree(saved.checkpoint("sharded-fp32"), tmp_path / "checkpoint")


@pytest.mark.parametrize("case", SAME, ids="-".join)
def test_resuming_under_the_same_strategy_changes_no_bit(
    saved: Saved, case: tuple[str, str]
) -> None:
    for straight, resumed in saved.outcomes[case]:
        assert resumed.losses == straight.losses[HALF:]
        assert np.array_equal(resumed.parameters, straight.parameters)
        assert np.array_equal(resumed.masters, straight.masters)
        assert (resumed.updates, resumed.scale) == (straight.updates, straight.scale)


def test_training_changed_the_weights_that_were_compared(saved: Saved) -> None:
    (fp32, _), _ = saved.outcomes["sharded", "fp32"]
    assert len(set(fp32.losses)) == STEPS
    assert fp32.updates == [STEPS]
    (bf16, _), _ = saved.outcomes["replicated", "bf16"]
    rounded = torch.from_numpy(bf16.masters).bfloat16().float().numpy()
    assert (bf16.masters != rounded).mean() > 0.5
    (fp16, _), _ = saved.outcomes["sharded", "fp16"]
    assert 0 < fp16.updates[0] < STEPS
    assert fp16.scale.scale < FP16_START.scale


@pytest.mark.parametrize(
    ("of", "to", "ranks", "precision"),
    [
        ("sharded", "replicated", 1, "fp32"),
        ("overlapped_sharded", "server", 2, "fp32"),
        ("replicated", "overlapped_sharded", 3, "fp32"),
        ("overlapped_sharded", "sliced", 3, "bf16"),
    ],
)
def test_resuming_elsewhere_gives_the_same_losses(
    saved: Saved, tmp_path: Path, of: str, to: str, ranks: int, precision: DtypeName
) -> None:
    of_ranks = on_ranks(
        ranks, resume, tmp_path, saved.checkpoint(f"{of}-{precision}"), to, precision
    )
    straight = np.mean([rank.losses[HALF:] for rank, _ in saved.outcomes[of, precision]], axis=0)
    tolerance = 1e-5 if precision == "fp32" else 2e-3
    np.testing.assert_allclose(np.mean(of_ranks, axis=0), straight, rtol=0, atol=tolerance)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("precision", "version"), [("fp32", 3), ("bf16", 5), ("fp16", 3)])
def test_model_file_holds_what_was_computed_with(
    tmp_path: Path, precision: DtypeName, version: int
) -> None:
    training = start("overlapped", precision)
    _, scale = go_on(training, 0, 2)
    save_checkpoint(tmp_path, training, 2, scale)
    assert read_header(tmp_path / "model.bin") == (TINY, version)
    assert_model_file_matches(tmp_path, training)


@pytest.mark.usefixtures("one_rank")
def test_another_precision_starts_from_the_fp32_weights(checkpoint: Path, saved: Saved) -> None:
    exact, rounded = start("server", "fp32", seed=2), start("server", "bf16", seed=3)
    load_checkpoint(checkpoint, exact)
    assert load_checkpoint(checkpoint, rounded) == (HALF, None)
    masters = held(rounded, [], LossScale()).masters
    assert np.array_equal(masters, held(exact, [], LossScale()).masters)
    parameters = exact.flat.parameters.bfloat16()
    assert torch.equal(rounded.flat.parameters[: len(parameters)], parameters)

    unscaled = start("server", "fp32", seed=4)
    assert load_checkpoint(saved.checkpoint("sharded-fp16"), unscaled) == (HALF, None)


def test_marker_tells_all_without_torch(saved: Saved) -> None:
    folder = saved.checkpoint("sharded-fp16", STEPS)
    info = read_checkpoint_info(folder)
    assert (info.step, info.batch, info.ranks, len(info.state_files)) == (STEPS, STEPS, 2, 2)
    assert (info.strategy, info.precision, info.seed, info.config) == ("sharded", "fp16", 7, TINY)
    assert info.loss_scale
    assert info.loss_scale["scale"] < FP16_START.scale
    code = (
        "import sys; from pathlib import Path; from steptime.train.checkpoint import "
        "read_checkpoint_info as read; "
        f"print(read(Path({str(folder)!r})).step, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(STEPS), "False"]


def test_only_owners_write_state(saved: Saved) -> None:
    def files(name: str) -> list[str]:
        return sorted(path.name for path in saved.checkpoint(name).iterdir())

    states = [state_name(rank) for rank in (0, 1)]
    assert files("replicated-fp32") == ["DONE", "model.bin", states[0]]
    assert files("sharded-fp32") == ["DONE", "model.bin", *states]
    nothing, everything = (
        read_state_file(saved.checkpoint("server-fp32") / states[rank]) for rank in (1, 0)
    )
    assert nothing.pieces == ()
    assert sum(piece.length for piece in everything.pieces) == TINY.padded().parameters
    assert everything.pieces[0] == Piece(whole("embedding.wte", (384, 16)), 0, 384 * 16, HALF)
    assert everything.read("square", 0).shape == (384 * 16,)


@pytest.mark.usefixtures("one_rank")
def test_saving_again_replaces_the_checkpoint(tmp_path: Path) -> None:
    training = start("sharded")
    _, scale = go_on(training, 0, 1)
    save_checkpoint(tmp_path, training, 1, scale)
    _, scale = go_on(training, 1, 1)
    save_checkpoint(tmp_path, training, 2, scale)
    again = start("sharded", seed=2)
    assert load_checkpoint(tmp_path, again)[0] == 2
    assert torch.equal(again.flat.parameters, training.flat.parameters)


def edit_marker(folder: Path, **fields: object) -> None:
    marker = folder / "DONE"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | fields))


def flip_a_late_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-300] ^= 1  # inside the moments of the last piece
    path.write_bytes(content)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (shutil.rmtree, "there is no checkpoint"),
        (lambda folder: (folder / "DONE").unlink(), "no file DONE"),
        (lambda folder: (folder / "DONE").write_text('{"step": 3'), "DONE"),
        (lambda folder: (folder / "DONE").write_text("[]"), "DONE"),
        (lambda folder: edit_marker(folder, ranks="two"), "Expected `int`, got `str`"),
        (lambda folder: edit_marker(folder, format=1), "it has format 1, and only 2 is known"),
        (lambda folder: edit_marker(folder, files={}), "its state files is 0"),
        (
            lambda folder: edit_marker(folder, files={"../DONE": {"bytes": 1, "blake2b": ""}}),
            "a file '../DONE' that no checkpoint has",
        ),
        (lambda folder: (folder / state_name(1)).unlink(), "state_00001.*: No such file"),
        (
            lambda folder: (folder / state_name(1)).write_bytes(
                (folder / state_name(1)).read_bytes()[:-100]
            ),
            r"state_00001.* bytes, and had .* when written",
        ),
        (lambda folder: flip_a_late_byte(folder / state_name(0)), "state_00000.* is damaged"),
        (lambda folder: flip_a_late_byte(folder / "model.bin"), "model.bin is damaged"),
        (lambda folder: forge(folder, lambda content: content[:40]), "state_00001"),
        (lambda folder: forge(folder, lambda content: content[:-8]), "its header asks for"),
        (lambda folder: forge(folder, lambda _: b"\xff" * 9), "its header would have"),
        (lambda folder: forge(folder, lambda _: (folder / state_name(0)).read_bytes()), "cover"),
    ],
)
def test_damaged_checkpoint_is_refused_in_a_sentence_that_names_it(
    checkpoint: Path, damage: Callable[[Path], object], sentence: str
) -> None:
    damage(checkpoint)
    with pytest.raises(UsageError, match=sentence) as error:
        load_checkpoint(checkpoint, start("replicated"))
    assert str(checkpoint) in str(error.value)
    assert "\n" not in str(error.value)


def forge(folder: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a state file and the marker with it."""
    path = folder / state_name(1)
    path.write_bytes(change(path.read_bytes()))
    info = json.loads((folder / "DONE").read_text())
    info["files"][path.name] = asdict(summed(path))
    (folder / "DONE").write_text(json.dumps(info))


def test_state_files_of_different_steps_are_refused(saved: Saved, checkpoint: Path) -> None:
    other = saved.checkpoint("sharded-fp32", STEPS) / state_name(1)
    forge(checkpoint, lambda _: other.read_bytes())
    with pytest.raises(UsageError, match="different steps"):
        read_checkpoint_info(checkpoint)


@pytest.mark.usefixtures("one_rank")
def test_other_dimensions_are_refused_and_named(checkpoint: Path) -> None:
    with pytest.raises(UsageError, match="layers 2, and this one has layers 1"):
        load_checkpoint(checkpoint, start("server", config=replace(TINY, layers=1)))


def save_where_rank_1_cannot(folder: Path) -> str:
    training = start("sharded")
    good = folder / "checkpoint_00000001"
    save_checkpoint(good, training, 1, LossScale(1.0))
    if dist.get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with pytest.raises(SteptimeError) as error:
        save_checkpoint(folder / "checkpoint_00000002", training, 2, LossScale(1.0))
    return str(error.value)


def test_all_ranks_hear_that_one_could_not_write(tmp_path: Path) -> None:
    messages = on_ranks(2, save_where_rank_1_cannot, tmp_path, tmp_path)
    bad = tmp_path / "checkpoint_00000002"
    assert messages == [f"cannot write the checkpoint {bad}: File too large"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint_00000001"]
    assert read_checkpoint_info(tmp_path / "checkpoint_00000001").step == 1
