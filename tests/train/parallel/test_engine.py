"""Ranks that share a model train it as one process does, and call what the Program says."""

import gc
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.distributed as dist

from ranks import on_ranks
from steptime.program import PIPELINE, Collective, Recv, Send
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.workloads.experts import is_routed
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.precision import element_dtype

STEPS = 20
ROWS = 8  # of a step
TOKENS = 16
LAYERS = 4
BUCKET = 16 << 10
ROUTED = -1  # bytes of a call where the routing decides


@dataclass(frozen=True)
class Case:
    """A mesh and how its ranks train."""

    mesh: Mesh
    how: dict

    @property
    def zero(self):
        return {"zero2": 2, "zero3": 3}.get(self.how.get("strategy"), 0)

    def __str__(self):
        axes = " ".join(f"{name}{n}" for name, n in self.mesh.sizes.items() if n > 1)
        return " ".join([axes, *(f"{value}" for value in self.how.values())])


def case(tensor=1, pipeline=1, data=1, context=1, expert=1, micro_batches=2, **how):
    mesh = Mesh(tensor=tensor, pipeline=pipeline, data=data, context=context, expert=expert)
    return Case(mesh, {"micro_batches": micro_batches} | how)


ON_2 = [
    case(tensor=2, sequence_parallel=True, recompute="full"),
    case(pipeline=2, micro_batches=4, schedule="zb-h1"),
    case(data=2, strategy="zero3"),
]
ON_4 = [
    case(tensor=2, data=2, strategy="overlapped_sharded"),
    case(tensor=4, strategy="overlapped"),
    case(data=4, strategy="zero2"),
    case(data=4, strategy="zero3", recompute="full"),
    case(tensor=2, data=2, strategy="zero3"),
    case(tensor=2, data=2, strategy="zero3", sequence_parallel=True),
    case(tensor=2, data=2, strategy="overlapped_sharded", sequence_parallel=True),
    case(tensor=2, context=2, strategy="sharded", sequence_parallel=True),
    case(context=4, micro_batches=1),
    case(pipeline=4, micro_batches=8, schedule="gpipe"),
    case(pipeline=4, micro_batches=8, schedule="zb-h1"),
    case(pipeline=2, data=2, micro_batches=4, schedule="1f1b", strategy="sharded"),
    case(pipeline=2, data=2, micro_batches=4, schedule="1f1b", strategy="overlapped"),
    case(pipeline=2, data=2, micro_batches=4, schedule="zb-h1", strategy="overlapped_sharded"),
    case(pipeline=2, tensor=2, micro_batches=4, schedule="interleaved", interleave=2),
    case(pipeline=2, tensor=2, micro_batches=4, schedule="zb-h1", sequence_parallel=True),
    case(pipeline=2, tensor=2, micro_batches=4, schedule="dualpipev", interleave=2),
    case(pipeline=2, context=2, micro_batches=4, schedule="1f1b", recompute="full"),
]
EXPERTS_ON_4 = [
    case(tensor=2, data=2, strategy="sharded"),
    case(expert=2, data=2, strategy="overlapped_sharded"),
    case(expert=2, data=2, strategy="zero3"),
    case(expert=2, tensor=2, sequence_parallel=True),
    case(expert=2, context=2, strategy="sharded"),
    case(expert=2, pipeline=2, micro_batches=4, schedule="zb-h1", strategy="overlapped"),
    case(pipeline=2, data=2, micro_batches=4, schedule="interleaved", interleave=2),
]
ON_8 = [
    case(
        tensor=2,
        data=2,
        pipeline=2,
        micro_batches=4,
        strategy="overlapped_sharded",
        sequence_parallel=True,
    ),
    case(tensor=2, context=2, pipeline=2, micro_batches=4, schedule="zb-h1"),
    case(pipeline=4, data=2, micro_batches=4, schedule="1f1b", strategy="sharded"),
    case(tensor=2, data=4, strategy="zero3"),
]
HALVES = {
    "fp16": case(tensor=2, pipeline=2, micro_batches=4, schedule="zb-h1"),
    "bf16": case(tensor=2, data=2, strategy="zero3"),
    "bf16-params": case(pipeline=2, data=2, strategy="overlapped_sharded"),
    "fp8-emulated": case(tensor=4, sequence_parallel=True),
}


def job_of(folder, model, precision="fp32", **train):
    from steptime.train.job import prepare_job

    options = JobOptions(
        model=model,
        data=DataOptions(data=folder / "text.txt"),
        train=TrainOptions(batch=ROWS, lr=2e-3, **train),
        precision=precision,
        compiled=False,
        steps=STEPS,
        warmup=1,
        seed=0,
    )
    return prepare_job(options, on_gpu=False)


MODEL = ModelOptions(layers=LAYERS, heads=4, hidden=32, tokens=TOKENS)
LLAMA = ModelOptions(
    name="llama-nano-moe",
    layers=LAYERS,
    heads=4,
    kv_heads=2,
    hidden=32,
    ffn=64,
    experts=4,
    tokens=TOKENS,
)


def alone(folder, model):
    """Losses and weights of one process."""
    from steptime.strategies import strategy_named
    from steptime.train.job import start_training
    from steptime.train.loop import training_steps

    training = start_training(job_of(folder, model), strategy_named("replicated"))
    losses = [float(outcome.loss) for outcome in training_steps(training, 0)]
    named = training.model.named_parameters()
    return losses, {name: p.detach().numpy().copy() for name, p in named}


def shared(folder, model, cases):
    """Losses, gathered weights, and calls that are not the Program's, of every case."""
    job = job_of(folder, model)
    found = []
    for one in cases:
        found.append(train(job, one))
        gc.collect()
    return found


def hybrid_of(job, one):
    return Hybrid(
        job.config,
        mesh=one.mesh,
        rows=ROWS // one.mesh.replicas // one.how["micro_batches"],
        tokens=TOKENS,
        dtype=element_dtype(job.options.precision),
        bucket_bytes=BUCKET,
        **one.how,
    )


def train(job, one):
    from steptime.train.loop import training_steps
    from steptime.train.parallel.hybrid import hybrid_training
    from steptime.train.tensors import mean_over_ranks

    hybrid = hybrid_of(job, one)
    training = hybrid_training(job, hybrid)
    losses = []
    for outcome in training_steps(training, 0):
        losses.append(mean_over_ranks(outcome.loss))
        if outcome.step == STEPS - 2:
            training.sums.settle()
            for comm in training.comms:
                comm.calls = []
    training.sums.settle()
    different = other_calls(training, hybrid)
    for bucket in training.sums.buckets:  # what is sharded takes no memory between two steps
        assert (bucket.flat.parameters.untyped_storage().size() == 0) == (one.zero == 3)
        assert (bucket.flat.gradients.untyped_storage().size() == 0) == (one.zero >= 2)
    return losses, gathered(training), different


def gathered(training):
    """The whole model's tensors, put together from all ranks' parts."""
    from steptime.train.parallel.hybrid import parts_of_model

    own = [(s.tensor.name, s, p.numpy().copy()) for s, p in parts_of_model(training)]
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    whole, filled = {}, {}
    for parts in everyone:
        for name, shard, values in parts:
            into = whole.setdefault(name, np.zeros(shard.tensor.shape, np.float32))
            done = filled.setdefault(name, np.zeros(shard.tensor.shape, bool))
            at = 0
            for box in shard.boxes:
                length = box[shard.dim].stop - box[shard.dim].start
                part = values.take(range(at, at + length), axis=shard.dim)
                assert not done[box].any() or (into[box] == part).all(), name  # the copies agree
                into[box], done[box] = part, True
                at += length
    assert all(done.all() for done in filled.values())
    return whole


def other_calls(training, hybrid):
    """By group, this rank's calls of the last step and the Program's, where they differ."""
    program, rank = hybrid.program, dist.get_rank()
    ops = program.lists[program.class_of[rank]]
    planned, made = {}, {}
    for op in ops:
        if isinstance(op, Collective):
            key = tuple(name for name in op.group if program.axes[name] > 1)
            planned.setdefault(key, []).append((op.kind, ROUTED if is_routed(op) else op.nbytes))
        elif isinstance(op, Send | Recv):
            stage = training.axes.at[PIPELINE]
            peer = (stage + op.by) % hybrid.mesh.pipeline
            kind = "send" if isinstance(op, Send) else "receive"
            planned.setdefault((kind, peer), []).append(op.nbytes)
    for axes, comm in training.axes.comms.items():
        if comm.calls:
            made[axes] = [(call.kind, call.nbytes) for call in comm.calls]
            for place, (_, nbytes) in enumerate(planned.get(axes, ())[: len(made[axes])]):
                if nbytes == ROUTED:
                    made[axes][place] = (made[axes][place][0], ROUTED)
    for comm in dict.fromkeys(training.live.lines.comms.values()):
        for call in comm.calls:
            made.setdefault((call.kind, call.peer), []).append(call.nbytes)
    keys = planned.keys() | made.keys()
    return {k: (made.get(k), planned.get(k)) for k in keys if made.get(k) != planned.get(k)}


def check(found, losses, weights, what):
    np.testing.assert_allclose(found[0], losses, rtol=1e-5, err_msg=what)
    assert found[2] == {}, what
    for name, reference in weights.items():
        whole = found[1][name][: len(reference)]
        assert not found[1][name][len(reference) :].any(), (what, name)  # more padding
        if name.endswith((".qkv.bias", ".k.bias")):
            continue  # the gradient of keys' biases is 0: AdamW's unit steps follow rounding
        apart = np.linalg.norm(whole - reference)
        assert apart <= 1e-5 * np.linalg.norm(reference), (what, name, apart)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    (folder / "text.txt").write_text(
        "".join(f"The square of {n} is {n * n}.\n" for n in range(900))
    )
    return folder


def halves(folder):
    """What 16-bit trainings come to on this rank, and what becomes of one that overflows."""
    from steptime.train.loop import training_steps
    from steptime.train.parallel.hybrid import hybrid_training, parts_of_model
    from steptime.train.precision import LossScale
    from steptime.train.tensors import mean_over_ranks

    found = {}
    for precision, one in HALVES.items():
        job = job_of(folder, MODEL, precision)
        training = hybrid_training(job, hybrid_of(job, one), timed=False)
        steps = training_steps(training, 0)
        found[precision] = [mean_over_ranks(outcome.loss) for outcome in steps]
    job = job_of(folder, MODEL, "fp16")
    training = hybrid_training(job, hybrid_of(job, HALVES["fp16"]), timed=False)
    before = [p.clone() for _, p in parts_of_model(training)]
    overflowing = training_steps(training, 0, LossScale(scale=2.0**60))
    outcome = next(overflowing)
    same = all(map(torch.equal, before, [p for _, p in parts_of_model(training)]))
    held_out = training.held_out_loss(job.tokens, 1)
    return found, (same, outcome.loss_scale.scale, bool(torch.isfinite(outcome.norm))), held_out


@pytest.mark.slow
def test_half_precision_is_near_and_all_ranks_skip_the_step_that_overflows_on_one(folder, tmp_path):
    ((losses, _),) = on_ranks(1, alone, tmp_path, folder, MODEL)
    for found, skipped, held_out in on_ranks(4, halves, tmp_path, folder):
        for precision, curve in found.items():
            np.testing.assert_allclose(curve, losses, rtol=5e-3, err_msg=precision)
        assert skipped == (True, 2.0**59, False)
        assert held_out == pytest.approx(losses[0], rel=0.05)  # of untrained weights, other rows


def proven(folder, tmp_path, model, ranks, cases, backend="gloo"):
    ((losses, weights),) = on_ranks(1, alone, tmp_path, folder, model)
    assert losses[0] - losses[-1] > 0.5
    for found in on_ranks(ranks, shared, tmp_path, folder, model, cases, backend=backend):
        for one, result in zip(cases, found, strict=True):
            check(result, losses, weights, str(one))


def test_two_ranks_train_what_one_process_trains_by_the_calls_of_the_program(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 2, ON_2)


@pytest.mark.slow
def test_four_ranks_train_what_one_process_trains_by_the_calls_of_the_program(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 4, ON_4)


@pytest.mark.slow
def test_four_ranks_train_a_llama_with_experts_as_one_process_does(folder, tmp_path):
    proven(folder, tmp_path, LLAMA, 4, EXPERTS_ON_4)


@pytest.mark.slow
def test_eight_ranks_along_three_axes_train_what_one_process_trains(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 8, ON_8)


@pytest.mark.slow
def test_the_backend_steptime_trains_shared_models_too(folder, tmp_path):
    proven(folder, tmp_path, MODEL, 4, [ON_4[n] for n in (4, 6, 13, 14)], backend="steptime")
