"""Every strategy trains the same model, keeps all ranks alike, and accounts for its bytes."""

import gc
import hashlib
from itertools import islice

import numpy as np
import pytest
import torch
import torch.distributed as dist

from ranks import on_ranks
from steptime.collectives.call_bytes import Traffic
from steptime.errors import UsageError
from steptime.strategies import live_strategies, strategy_named
from steptime.timeline import Recorder, phases_of_steps
from steptime.train.data import Batches
from steptime.train.loop import training_steps
from steptime.train.options import DataOptions, ModelOptions, TrainOptions
from steptime.train.precision import precision_of
from steptime.train.tokens import load_tokens
from steptime.train.training import Training, build_training, new_model
from steptime.world import compat

STEPS = 20
HALF_STEPS = 5  # half precision is emulated on many CPUs
ELEMENT = 4  # bytes of fp32


def train(
    name, precision="fp32", steps=STEPS, recorder=None, seed=0, context=64, batch=6, **options
) -> Training:
    """The nano model, on few of the tokens of the default data, ready to train on this rank."""
    config = ModelOptions(tokens=context).config(vocabulary=256)
    batches = Batches(
        tokens=load_tokens(DataOptions()),
        context=config.context,
        batch=batch,
        rank=dist.get_rank(),
        ranks=dist.get_world_size(),
        seed=seed,
    )
    return build_training(
        new_model(config, seed, torch.device("cpu")),
        batches,
        strategy_named(name),
        precision_of(precision, options.pop("reduce", "fp32")),
        TrainOptions(**options),
        peak_learning_rate=2e-3,
        steps=steps,
        recorder=recorder,
    )


def weights_of(training):
    return {
        slot.name: training.flat.parameters[slot.span.slice].float().numpy().copy()
        for slot in training.flat.layout.slots
    }


def run_strategies(names, precision, steps, options):
    """Losses and final weights of each strategy; asserts equal bits on all ranks at every step."""
    found = {}
    for name in names:
        training = train(name, precision, steps, **options)
        losses = []
        for outcome in training_steps(training, 0):
            training.sync.settle()
            bits = training.flat.parameters.view(torch.uint8).numpy().tobytes()
            digests = [None] * dist.get_world_size()
            dist.all_gather_object(digests, hashlib.blake2b(bits).hexdigest())
            assert len(set(digests)) == 1, (name, outcome.step)
            loss = outcome.loss.clone()
            dist.all_reduce(loss)
            losses.append(float(loss) / dist.get_world_size())
        found[name] = (losses, weights_of(training))
        del training
        gc.collect()
    return found


def difference(weights, reference):
    """Largest difference over the largest weight."""
    top = max(np.abs(value).max() for value in reference.values())
    return max(np.abs(weights[name] - reference[name]).max() for name in reference) / top


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """One process on the whole global batch."""
    (found,) = on_ranks(
        1, run_strategies, tmp_path_factory.mktemp("single"), ["replicated"], "fp32", STEPS, {}
    )
    return found["replicated"]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_all_strategies_train_what_one_process_trains(single, tmp_path, ranks):
    losses, weights = single
    assert losses[0] - losses[-1] > 1.0
    names = list(live_strategies())
    for found in on_ranks(ranks, run_strategies, tmp_path, names, "fp32", STEPS, {}):
        for name in names:
            np.testing.assert_allclose(found[name][0], losses, rtol=1e-5, err_msg=name)
            assert difference(found[name][1], weights) <= 1e-5, name
            for tensor, reference in weights.items():
                if tensor.endswith("qkv.bias"):
                    # The softmax does not see a constant added to all keys: in exact arithmetic
                    # the gradient of their bias is zero, and AdamW's unit steps follow rounding.
                    continue
                apart = np.linalg.norm(found[name][1][tensor] - reference)
                assert apart <= 1e-5 * np.linalg.norm(reference), (name, tensor)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "of_fp32", "of_each_other"),
    [("bf16", 5e-3, 1e-3), ("fp16", 1e-3, 1e-4)],
)
def test_half_precision_stays_near_fp32(single, tmp_path, precision, of_fp32, of_each_other):
    losses, _ = single
    names = ["replicated", "overlapped_sharded"] if precision == "fp16" else live_strategies()
    for found in on_ranks(2, run_strategies, tmp_path, list(names), precision, HALF_STEPS, {}):
        for name in names:
            np.testing.assert_allclose(
                found[name][0], losses[:HALF_STEPS], rtol=of_fp32, err_msg=name
            )
            np.testing.assert_allclose(
                found[name][0], found["replicated"][0], rtol=of_each_other, err_msg=name
            )


def test_the_backend_steptime_trains_to_the_bits_of_gloo_on_two_ranks(tmp_path):
    names = ["sharded", "shared", "overlapped"]
    arguments = (2, run_strategies, tmp_path, names, "fp32", 6, {})
    both = zip(on_ranks(*arguments, backend="steptime"), on_ranks(*arguments), strict=True)
    for ours, theirs in both:
        for name in names:
            assert ours[name][0] == theirs[name][0], name
            for tensor, weight in theirs[name][1].items():
                np.testing.assert_array_equal(ours[name][1][tensor], weight, f"{name} {tensor}")


def run_reduced(reduce):
    return run_strategies(["sharded", "overlapped"], "bf16", 10, {"reduce": reduce})


@pytest.mark.slow
def test_gradients_can_be_reduced_in_bf16(tmp_path):
    found = on_ranks(2, run_reduced, tmp_path, "bf16")[0]
    for losses, _ in found.values():
        assert losses[0] - losses[-1] > 0.5


def run_accumulation():
    options = {"clip": 0.5, "bucket": 100_000}
    return (
        run_strategies(["overlapped"], "fp32", 6, options | {"accumulate": 1}),
        run_strategies(["overlapped", "server"], "fp32", 6, options | {"accumulate": 3}),
    )


def test_micro_batches_add_up_to_the_same_step(tmp_path):
    whole, parts = on_ranks(2, run_accumulation, tmp_path)[0]
    for losses, weights in parts.values():
        np.testing.assert_allclose(losses, whole["overlapped"][0], rtol=1e-5)
        assert difference(weights, whole["overlapped"][1]) <= 1e-5


def count_traffic():
    """What each strategy says it moved in one step, and what torch.distributed was called with."""
    found = {}
    for name in live_strategies():
        training = train(name, steps=2)
        calls = []
        undo = _spy(calls)
        try:
            list(islice(training_steps(training, 0), 1))
        finally:
            undo()
        training.sync.settle()
        found[name] = (training.comm.traffic, calls, training.flat.layout)
        del training
        gc.collect()
    return found


def _spy(calls):
    """Note kind, bytes and root of every collective at torch.distributed itself."""
    kinds = {
        "all_reduce": lambda tensor, *_, **__: ("all_reduce", tensor, 0),
        "reduce": lambda tensor, group_dst, **_: ("reduce", tensor, group_dst),
        "broadcast": lambda tensor, group_src, **_: ("broadcast", tensor, group_src),
        "reduce_scatter_single": lambda _, vector, **__: ("reduce_scatter", vector, 0),
        "all_gather_single": lambda vector, *_, **__: ("all_gather", vector, 0),
    }
    # torch has some of them by another name before 2.13, for which compat stands.
    where = {kind: compat if kind.endswith("_single") else dist for kind in kinds}
    originals = {kind: getattr(where[kind], kind) for kind in kinds}

    def watch(kind):
        def called(*args, **kwargs):
            name, tensor, root = kinds[kind](*args, **kwargs)
            calls.append((name, tensor.numel() * tensor.element_size(), root))
            return originals[kind](*args, **kwargs)

        return called

    for kind in kinds:
        setattr(where[kind], kind, watch(kind))
    return lambda: [setattr(where[kind], kind, f) for kind, f in originals.items()]


@pytest.mark.parametrize("ranks", [2, 3])
def test_bytes_are_those_of_the_calls_and_of_the_closed_forms(tmp_path, ranks):
    results = on_ranks(ranks, count_traffic, tmp_path)
    for rank, found in enumerate(results):
        for name, (traffic, calls, layout) in found.items():
            assert traffic == _sum_of_calls(calls, rank, ranks), name
            assert traffic == _closed_form(name, layout.size * ELEMENT, rank, ranks), name


def _sum_of_calls(calls, rank, ranks):
    sent = received = 0
    for kind, size, root in calls:
        if kind == "all_reduce":
            moved = 2 * (ranks - 1) * size // ranks
            sent, received = sent + moved, received + moved
        elif kind in ("reduce_scatter", "all_gather"):
            moved = (ranks - 1) * size // ranks
            sent, received = sent + moved, received + moved
        elif (kind == "reduce") == (rank == root):
            received += (ranks - 1) * size if kind == "reduce" else size
        else:
            sent += size if kind == "reduce" else (ranks - 1) * size
    return Traffic(sent, received)


def _closed_form(name, size, rank, ranks):
    """Bytes of one step with gradients and parameters of ``size`` bytes, and a norm of 8."""
    norm = 2 * (ranks - 1) * 8 // ranks
    ring = 2 * (ranks - 1) * size // ranks
    if name == "server":
        moved = (ranks - 1) * size if rank == 0 else size
        return Traffic(moved + norm, moved + norm)
    if name in ("replicated", "overlapped"):
        return Traffic(ring, ring)
    if name == "shared":
        return Traffic(ring // 2 + norm, ring // 2 + norm)
    return Traffic(ring + norm, ring + norm)


def measure_phases():
    recorder = Recorder()
    training = train("overlapped_sharded", steps=6, recorder=recorder, context=128, batch=12)
    list(training_steps(training, 0))
    training.sync.settle()
    phases = phases_of_steps(recorder.timeline(dist.get_rank(), 2), "overlapped_sharded")
    names = {recorder.timeline(0, 2).names[i] for i in recorder.timeline(0, 2).intervals["name"]}
    return phases, names


def test_phases_of_a_live_step_add_up_and_none_is_empty(tmp_path):
    for phases, names in on_ranks(2, measure_phases, tmp_path):
        parts = sum(phases[field] for field in ("compute", "exposed_comm", "update", "other"))
        np.testing.assert_allclose(parts, phases["duration"], rtol=1e-6)
        # In one step at least nobody took the core away where no phase is told.
        assert (phases["other"] / phases["duration"]).min() < 0.25
        for field in ("compute", "update", "communication"):
            assert (phases[field] > 0).all(), field
        assert {"forward", "backward", "reduce_scatter", "all_gather", "wait"} <= names


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="no strategy 'ring'; choose from server, "):
        strategy_named("ring")
