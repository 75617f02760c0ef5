"""Trainings whose ranks share a model, held against one process and against their Programs."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray

from steptime.program import PIPELINE, Collective, Recv, Send
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.workloads.experts import is_routed
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.precision import element_dtype

Weights: TypeAlias = dict[str, NDArray[np.float32]]
Call: TypeAlias = tuple[str, int]
"""What it is and its bytes."""

Found: TypeAlias = tuple[list[float], Weights, dict[Any, Any]]
"""Losses, the whole model's weights, and the calls that are not the Program's."""

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
    how: dict[str, Any]

    @property
    def zero(self) -> int:
        return {"zero2": 2, "zero3": 3}.get(self.how.get("strategy", ""), 0)

    def __str__(self) -> str:
        axes = " ".join(f"{name}{n}" for name, n in self.mesh.sizes.items() if n > 1)
        return " ".join([axes, *(f"{value}" for value in self.how.values())])


def case(
    tensor: int = 1,
    pipeline: int = 1,
    data: int = 1,
    context: int = 1,
    expert: int = 1,
    micro_batches: int = 2,
    **how: Any,
) -> Case:
    """Ranks along each axis, and how they train, by the names of Hybrid's fields."""
    mesh = Mesh(tensor=tensor, pipeline=pipeline, data=data, context=context, expert=expert)
    return Case(mesh, {"micro_batches": micro_batches} | how)


def write_text(folder: Path) -> None:
    """What they train on."""
    (folder / "text.txt").write_text(
        "".join(f"The square of {n} is {n * n}.\n" for n in range(900))
    )


def job_of(folder: Path, model: ModelOptions, precision: Any = "fp32", **train: Any) -> Any:
    """A training of the model on the text in the folder."""
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


def alone(folder: Path, model: ModelOptions) -> tuple[list[float], Weights]:
    """Losses and weights of one process."""
    from steptime.strategies import strategy_named
    from steptime.train.job import start_training
    from steptime.train.loop import training_steps

    training: Any = start_training(job_of(folder, model), strategy_named("replicated"))
    losses = [float(outcome.loss) for outcome in training_steps(training, 0)]
    named = training.model.named_parameters()
    return losses, {name: p.detach().numpy().copy() for name, p in named}


def shared(folder: Path, model: ModelOptions, cases: Sequence[Case]) -> list[Found]:
    """Losses, gathered weights, and calls that are not the Program's, of every case."""
    job = job_of(folder, model)
    found = []
    for one in cases:
        found.append(train(job, one))
        gc.collect()
    return found


def hybrid_of(job: Any, one: Case) -> Hybrid:
    """The step that the ranks of a layout train."""
    return Hybrid(
        job.config,
        mesh=one.mesh,
        rows=ROWS // one.mesh.replicas // one.how["micro_batches"],
        tokens=TOKENS,
        dtype=element_dtype(job.options.precision),
        bucket_bytes=BUCKET,
        **one.how,
    )


def train(job: Any, one: Case) -> Found:
    """As ``shared``, of one layout."""
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


def gathered(training: Any) -> Weights:
    """The whole model's tensors, put together from all ranks' parts."""
    from steptime.train.parallel.hybrid import parts_of_model

    own = [(s.tensor.name, s, p.numpy().copy()) for s, p in parts_of_model(training)]
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    whole: Weights = {}
    filled: dict[str, NDArray[np.bool_]] = {}
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


def other_calls(training: Any, hybrid: Hybrid) -> dict[Any, Any]:
    """By group, this rank's calls of the last step and the Program's, where they differ.

    The Program says in what order the calls of a stream come. Where a group has calls of several
    streams, as one that gathers both weights and tokens, they may come in any order that keeps
    each stream's.
    """
    program, rank = hybrid.program, dist.get_rank()
    ops = program.lists[program.class_of[rank]]
    planned: dict[Any, dict[str, list[Call]]] = {}
    made: dict[Any, list[Call]] = {}
    for op in ops:
        if isinstance(op, Collective):
            key: Any = tuple(name for name in op.group if program.axes[name] > 1)
            call = op.kind, ROUTED if is_routed(op) else op.nbytes
            planned.setdefault(key, {}).setdefault(op.stream, []).append(call)
        elif isinstance(op, Send | Recv):
            stage = training.axes.at[PIPELINE]
            peer = (stage + op.by) % hybrid.mesh.pipeline
            kind = "send" if isinstance(op, Send) else "receive"
            planned.setdefault((kind, peer), {}).setdefault("", []).append((kind, op.nbytes))
    for axes, comm in training.axes.comms.items():
        if comm.calls:
            made[axes] = [(call.kind, call.nbytes) for call in comm.calls]
    for comm in dict.fromkeys(training.live.lines.comms.values()):
        for call in comm.calls:
            made.setdefault((call.kind, call.peer), []).append((call.kind, call.nbytes))
    return {
        key: (made.get(key), planned.get(key))
        for key in planned.keys() | made.keys()
        if not interleaved(made.get(key, []), list(planned.get(key, {}).values()))
    }


def interleaved(calls: list[Call], streams: list[list[Call]]) -> bool:
    """Whether ``calls`` are those of all streams, each stream's in its order.

    ``reached``: how many of each stream may be those that came so far.
    """
    reached = {(0,) * len(streams)}
    for kind, nbytes in calls:
        reached = {
            (*counts[:number], counts[number] + 1, *counts[number + 1 :])
            for counts in reached
            for number, stream in enumerate(streams)
            if counts[number] < len(stream)
            and stream[counts[number]] in ((kind, nbytes), (kind, ROUTED))
        }
    return tuple(map(len, streams)) in reached


def check(found: Found, losses: list[float], weights: Weights, what: str) -> None:
    """Raise AssertionError where a training came to something else than one process did."""
    np.testing.assert_allclose(found[0], losses, rtol=1e-5, err_msg=what)
    assert found[2] == {}, what
    for name, reference in weights.items():
        whole = found[1][name][: len(reference)]
        assert not found[1][name][len(reference) :].any(), (what, name)  # more padding
        if name.endswith((".qkv.bias", ".k.bias")):
            continue  # the gradient of keys' biases is 0: AdamW's unit steps follow rounding
        apart = np.linalg.norm(whole - reference)
        assert apart <= 1e-5 * np.linalg.norm(reference), (what, name, apart)
