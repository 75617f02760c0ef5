"""Hybrid training: the live twin of ``workloads.hybrid.Hybrid`` on one of its ranks.

It runs that object: its stages, the order of its passes, its pools and buckets of gradients, and
the functions of its strategy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from steptime.collectives.call_bytes import Traffic
from steptime.program import PIPELINE
from steptime.strategies import Strategy
from steptime.timeline import Phase, Recorder, recording
from steptime.train.config import suitable_learning_rate
from steptime.train.data import Batch, Batches, validation_batches
from steptime.train.fp8 import emulate_fp8
from steptime.train.keeping.state import State
from steptime.train.llmc import check_dimensions
from steptime.train.model.transformer import fill_parts, initialise
from steptime.train.options import TrainOptions
from steptime.train.parallel.axes import Axes, form_axes
from steptime.train.parallel.lines import form_lines
from steptime.train.parallel.pipeline import LiveStage, MicroBatch
from steptime.train.parallel.pools import live_pools
from steptime.train.parallel.shard import Shard
from steptime.train.parallel.stages import StageModel
from steptime.train.parallel.state import state_of_buckets
from steptime.train.parallel.sums import StageSums
from steptime.train.precision import Precision, precision_of
from steptime.train.tensors import mean_over_ranks, to_device
from steptime.train.tokens import Tokens
from steptime.train.training import rate_of_step
from steptime.train.weights import weights_at
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import CONTEXT, DATA, EXPERT, TENSOR
from steptime.workloads.models import Transformer
from steptime.workloads.stage import Stage
from steptime.world.clock import recorder_for
from steptime.world.communicator import Communicator

if TYPE_CHECKING:
    from steptime.train.job import Job


@dataclass(frozen=True, eq=False, kw_only=True)
class HybridTraining:
    """All that the training loop works with, on one rank of a mesh."""

    hybrid: Hybrid
    axes: Axes
    live: LiveStage
    batches: Batches
    precision: Precision
    options: TrainOptions
    peak_learning_rate: float
    steps: int
    recorder: Recorder | None

    @property
    def model(self) -> StageModel:
        """This rank's part of the model."""
        return self.live.model

    @property
    def sums(self) -> StageSums:
        """Its parameters and gradients, bucket by bucket, with the optimizers."""
        return self.live.sums

    @property
    def strategy(self) -> Strategy:
        """How gradients are summed."""
        return self.hybrid.sync.strategy

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.live.device

    @property
    def comms(self) -> list[Communicator]:
        """All communicators of this rank, each once."""
        return list(dict.fromkeys((*self.axes.comms.values(), *self.live.lines.comms.values())))

    @property
    def traffic(self) -> Traffic:
        """Bytes that all calls so far made this rank send and receive."""
        total = Traffic(0, 0)
        for comm in self.comms:
            total = total.plus(comm.traffic)
        return total

    @property
    def config(self) -> Transformer:
        """The whole model."""
        return self.model.config

    @property
    def rank(self) -> int:
        """This rank in the world."""
        return dist.get_rank()

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.hybrid.mesh.ranks

    @property
    def writes(self) -> bool:
        """Whether this rank has a file in a checkpoint: each owns what no other does, or little."""
        return True

    def learning_rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        return rate_of_step(self.options, step, self.steps, self.peak_learning_rate)

    def gradients(self, batch: int, scale: float) -> Tensor:
        """Accumulate and sum the gradients of all micro-batches; this rank's share of the loss, ().

        The mean over all ranks is the mean over all rows: a rank without the head has 0, so that no
        step ends with a message about it.
        """
        mesh, parts = self.hybrid.mesh, self.hybrid.micro_batches
        with recording(self.recorder, "data", "batch", Phase.OTHER):
            micro_batches = self._micro_batches(self.batches.at(batch), parts)
        self.sums.begin()
        loss = self.live.run(micro_batches, scale / (mesh.replicas * mesh.context * parts))
        self.sums.finish()
        return loss * (mesh.pipeline / parts)

    def squared_norm(self) -> Tensor:
        """Sum of squares of all gradients of all ranks, shape ()."""
        return self.sums.squared_norm()

    def update(self, learning_rate: float, divisor: Tensor | None) -> None:
        """Update bucket by bucket what this rank owns, and share it."""
        self.sums.update(learning_rate, divisor)

    def settle(self) -> None:
        """Block until this rank holds all updated parameters."""
        self.sums.settle()

    @torch.no_grad()
    def held_out_loss(self, tokens: Tokens, batches: int) -> float:
        """Mean loss in nats a token over the first ``batches`` micro-batches of held-out text."""
        mesh = self.hybrid.mesh
        found = validation_batches(
            tokens,
            context=self.hybrid.cut.row,
            batch=self.hybrid.rows * mesh.replicas,
            rank=self.batches.rank,
            ranks=mesh.replicas,
            steps=batches,
        )
        losses = []
        with self.sums.gathered():
            for batch in found:
                (micro_batch,) = self._micro_batches(batch, 1)
                losses.append(self.live.loss(micro_batch))
        return mean_over_ranks(torch.stack(losses).mean() * mesh.pipeline)

    def state(self) -> State:
        """What a checkpoint needs of this rank."""
        sharded = self.strategy.zero == 3
        return state_of_buckets(self.sums.buckets, self.config, self.axes, sharded=sharded)

    def weights(self) -> Mapping[str, Tensor] | None:
        """None: no rank has them all."""
        return None

    @property
    def place(self) -> tuple[int, ...]:
        """Which part of the model this rank computes with, or owns where it is sharded."""
        sharded = self.strategy.zero == 3
        replicated = () if sharded else (DATA, CONTEXT)
        return tuple(at for axis, at in self.axes.at.items() if axis not in replicated)

    def held(self) -> Iterable[Tensor]:
        """The parameters that this rank computes with, or owns where they are sharded."""
        sharded = self.strategy.zero == 3
        return [(b.own if sharded else b.flat).parameters for b in self.sums.buckets]

    def _micro_batches(self, batch: Batch, parts: int) -> list[MicroBatch]:
        """The tokens and targets of a replica in so many parts, of each row those of this rank."""
        inputs, targets = (to_device(rows, self.device) for rows in batch)
        if self.axes.mesh.context > 1:
            mine = self.axes.positions(inputs.shape[1], self.device)
            inputs, targets = inputs[:, mine], targets[:, mine]
        return list(zip(inputs.chunk(parts), targets.chunk(parts), strict=True))


def hybrid_training(job: "Job", hybrid: Hybrid, *, timed: bool = True) -> HybridTraining:
    """This rank's part of a job that ranks share as ``hybrid`` says; all ranks of its mesh call it.

    ``hybrid`` is of the job's model, rows and options; its weights are those that the same job has
    in one process. ``timed``: record a timeline.
    """
    options, mesh = job.options, hybrid.mesh
    recorder = recorder_for(job.device) if timed else None
    axes = form_axes(
        mesh, groups_of(hybrid), recorder, sequence_parallel=hybrid.cut.sequence_parallel
    )
    lines = form_lines(mesh, recorder, nccl=dist.get_backend() == "nccl")
    stage = hybrid.stages[axes.at[PIPELINE]]
    precision = precision_of(options.precision, options.train.reduce_dtype, options.train.rounding)
    model = _stage_model(job, stage, axes)
    strategy = hybrid.sync.strategy
    pools = live_pools(
        model.to(job.device),
        stage.gradients,
        axes,
        strategy,
        precision,
        options.train.weight_decay,
        options.seed,
    )
    if precision.fp8:
        emulate_fp8(model)
    if options.compiled:
        model.compile_units()
    live = LiveStage(
        stage=stage,
        model=model,
        sums=StageSums(model, stage, pools, strategy, axes, lines),
        lines=lines,
        dtype=precision.compute,
        device=job.device,
        recorder=recorder,
    )
    return HybridTraining(
        hybrid=hybrid,
        axes=axes,
        live=live,
        batches=Batches(
            tokens=job.tokens,
            context=hybrid.cut.row,
            batch=hybrid.rows * hybrid.micro_batches * mesh.replicas,
            rank=axes.at[DATA] * mesh.expert + axes.at[EXPERT],
            ranks=mesh.replicas,
            seed=options.seed,
        ),
        precision=precision,
        options=options.train,
        peak_learning_rate=options.train.lr or suitable_learning_rate(job.config),
        steps=options.steps,
        recorder=recorder,
    )


def _stage_model(job: "Job", stage: Stage, axes: Axes) -> StageModel:
    """A rank's part of the model, with the weights that the same job has in one process."""
    options = job.options
    model = StageModel(job.config, stage, axes)
    initialise(model, job.config, torch.Generator().manual_seed(options.seed), axes)
    if options.model.init:
        weights = weights_at(options.model.init)
        check_dimensions(weights.path, weights.dimensions(), job.config)
        tensor = weights.tensors()
        fill_parts(model, job.config, axes, lambda name, _: tensor(name))
    return model


def groups_of(hybrid: Hybrid) -> list[tuple[str, ...]]:
    """The sets of axes along which the ranks of a step have collectives, in the mesh's order."""
    mesh = hybrid.mesh
    wanted: list[tuple[str, ...]] = [hybrid.stages[0].gradients.norm_axes]
    for stage in hybrid.stages:
        wanted += [pool.axes for pool in stage.gradients.pools]
        wanted += [call.group for call in stage.calls]
        if stage.gradients.unsplit:
            wanted.append((TENSOR,))
    used = (tuple(n for n, size in mesh.sizes.items() if n in axes and size > 1) for axes in wanted)
    return [axes for axes in dict.fromkeys(used) if axes]


def parts_of_model(training: HybridTraining) -> list[tuple[Shard, Tensor]]:
    """This rank's parts of the whole model's tensors, and copies of their values in its dtype.

    All ranks call it alike, between two steps.
    """
    with training.sums.gathered():
        return [
            (shard, bucket.flat.parameters[slot.span.slice].view(slot.shape).detach().clone())
            for bucket in training.sums.buckets
            for slot, shard in zip(bucket.flat.layout.slots, bucket.shards, strict=True)
        ]
