"""Live: what the training loop, checkpoints and figures ask of a training, however it is shared."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from steptime.collectives.call_bytes import Traffic
from steptime.strategies import Strategy
from steptime.timeline import Recorder
from steptime.train.data import Batches
from steptime.train.keeping.state import State
from steptime.train.options import TrainOptions
from steptime.train.precision import Precision
from steptime.train.tokens import Tokens
from steptime.workloads.models import Transformer


class Live(Protocol):
    """One rank's part of a training; all ranks call its methods alike.

    ``rank`` and ``ranks`` are those of the world. ``steps`` counts those of the whole training.
    """

    @property
    def config(self) -> Transformer:
        """The whole model."""

    @property
    def strategy(self) -> Strategy:
        """How gradients are synchronised."""

    @property
    def options(self) -> TrainOptions:
        """How the model is trained."""

    @property
    def precision(self) -> Precision:
        """What is computed in which dtype."""

    @property
    def batches(self) -> Batches:
        """The rows of this rank at each step."""

    @property
    def steps(self) -> int:
        """Steps of the whole training."""

    @property
    def device(self) -> torch.device:
        """The device that computes."""

    @property
    def recorder(self) -> Recorder | None:
        """What notes the times of its steps."""

    @property
    def rank(self) -> int:
        """This rank in the world."""

    @property
    def ranks(self) -> int:
        """How many there are."""

    @property
    def traffic(self) -> Traffic:
        """Bytes that all calls so far made this rank send and receive."""

    def learning_rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""

    def gradients(self, batch: int, scale: float) -> Tensor:
        """Forward and backward of the rows of a batch by its number, and the sum of all gradients.

        The loss is multiplied by ``scale``. Returns this rank's share of it without that, shape ():
        the mean over all ranks is the mean over all rows.
        """

    def squared_norm(self) -> Tensor:
        """Sum of squares of all gradients of all ranks, shape (), fp64."""

    def update(self, learning_rate: float, divisor: Tensor | None) -> None:
        """Update the weights with the gradients divided by ``divisor``, (), and share them."""

    def settle(self) -> None:
        """Block until this rank holds all updated parameters that it computes with."""

    def held_out_loss(self, tokens: Tokens, batches: int) -> float:
        """Mean loss in nats a token over the first ``batches`` batches of held-out text."""

    def state(self) -> State:
        """The tensors that make up its checkpoint, as they are while no step runs."""

    @property
    def writes(self) -> bool:
        """Whether a checkpoint needs what this rank owns: others may own the same."""

    def weights(self) -> Mapping[str, Tensor] | None:
        """All weights of the model by their names, on the first rank where it has them whole."""

    @property
    def place(self) -> tuple[int, ...]:
        """Which part of the model this rank computes with: ranks of one place hold the same."""

    def held(self) -> Iterable[Tensor]:
        """The parameters that this rank computes with, in order."""
