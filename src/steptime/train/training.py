"""Training: the objects of one rank's training, and how they are put together."""

from dataclasses import dataclass

import torch

from steptime.strategies import Strategy
from steptime.timeline import Recorder
from steptime.train.config import GPT2Config
from steptime.train.data import Batches
from steptime.train.flat import FlatModel, flat_weights, flatten, own_buffers, shared_buffers
from steptime.train.layout import plan_layout
from steptime.train.model import GPT2, compile_units
from steptime.train.optimizer import ShardedAdamW
from steptime.train.options import TrainOptions
from steptime.train.precision import Precision
from steptime.train.schedule import learning_rate
from steptime.train.sync import GradientSync
from steptime.world.communicator import Communicator

_SHORTEST_WARMUP = 20  # steps; AdamW's first ones follow the signs of single gradients


@dataclass(frozen=True, kw_only=True)
class Training:
    """All that the training loop works with, on one rank."""

    config: GPT2Config
    model: GPT2
    flat: FlatModel
    optimizer: ShardedAdamW
    strategy: Strategy
    sync: GradientSync
    comm: Communicator
    batches: Batches
    precision: Precision
    options: TrainOptions
    peak_learning_rate: float
    steps: int

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return self.flat.parameters.device

    @property
    def partitioned(self) -> bool:
        """Whether some rank updates only a part of the parameters, or none."""
        ranks = self.comm.ranks
        return any(
            self.strategy.owned(bucket, ranks - 1, ranks) != bucket
            for bucket in self.flat.layout.buckets
        )

    def learning_rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        warmup = self.options.lr_warmup
        return learning_rate(
            self.options.schedule,
            step,
            self.steps,
            self.peak_learning_rate,
            max(_SHORTEST_WARMUP, self.steps // 10) if warmup is None else warmup,
            final=0.1,
        )


def build_training(
    model: GPT2,
    batches: Batches,
    strategy: Strategy,
    precision: Precision,
    options: TrainOptions,
    *,
    peak_learning_rate: float,
    steps: int,
    compiled: bool = False,
    recorder: Recorder | None = None,
) -> Training:
    """Set up ``model`` for ``strategy`` on this rank; its parameters move into a flat buffer."""
    comm = Communicator(recorder)
    tensors = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    element = torch.empty(0, dtype=precision.reduce).element_size()
    layout = plan_layout(
        tensors, comm.ranks, options.bucket // element if strategy.overlapped else None
    )
    weights = flat_weights(model, layout)
    buffers = shared_buffers if strategy.in_shared_memory and comm.ranks > 1 else own_buffers
    flat = flatten(model, layout, *buffers(weights, precision))
    owned = [strategy.owned(bucket, comm.rank, comm.ranks) for bucket in layout.buckets]
    optimizer = ShardedAdamW(flat, weights, owned, options.weight_decay)
    if compiled:
        compile_units(model)
    return Training(
        config=model.config,
        model=model,
        flat=flat,
        optimizer=optimizer,
        strategy=strategy,
        sync=GradientSync(model, model.units(), flat, strategy, comm),
        comm=comm,
        batches=batches,
        precision=precision,
        options=options,
        peak_learning_rate=peak_learning_rate,
        steps=steps,
    )


def new_model(config: GPT2Config, seed: int, device: torch.device) -> GPT2:
    """A GPT-2 whose initial weights depend on the seed alone."""
    return GPT2(config, torch.Generator().manual_seed(seed)).to(device)
