"""GradientSync: runs a strategy: reduces buckets when ready and shares them when updated."""

from collections.abc import Iterable
from functools import partial

from torch import Tensor, nn

from steptime.strategies import Strategy, Work
from steptime.train.flat import FlatModel
from steptime.world.communicator import Communicator


class GradientSync:
    """Moves the gradients and parameters of one rank's model as its strategy says.

    A hook on each parameter gets its gradient as soon as backward completes it; hooks on the
    model's units let forward wait for just the parameters that a unit needs.
    """

    def __init__(
        self,
        model: nn.Module,
        units: Iterable[nn.Module],
        flat: FlatModel,
        strategy: Strategy,
        comm: Communicator,
    ) -> None:
        self._flat = flat
        self._strategy = strategy
        self._comm = comm
        self._first = self._last = True
        self._missing: list[int] = []  # of each bucket: gradients that backward still owes
        self._unreduced = 0  # buckets not yet handed to the strategy, counted from the front
        self._reducing: list[Work] = []
        self._sharing: dict[int, list[Work]] = {}
        slot_of = {slot.name: slot for slot in flat.layout.slots}
        self._slots_of_bucket = [0] * len(flat.layout.buckets)
        for name, parameter in model.named_parameters():
            bucket = flat.layout.bucket_of(slot_of[name])
            self._slots_of_bucket[bucket] += 1
            parameter.register_post_accumulate_grad_hook(
                partial(self._on_gradient, flat.gradient_of(slot_of[name]), bucket)
            )
        if strategy.overlapped:
            name_of = {parameter: name for name, parameter in model.named_parameters()}
            for unit in units:
                needed = {
                    flat.layout.bucket_of(slot_of[name_of[parameter]])
                    for parameter in unit.parameters()
                }
                unit.register_forward_pre_hook(partial(self._before_forward, sorted(needed)))

    def expect(self, *, first: bool, last: bool) -> None:
        """Announce a backward pass: whether its micro-batch is the step's first, last, or both."""
        self._first, self._last = first, last
        self._missing = list(self._slots_of_bucket)
        self._unreduced = len(self._missing)

    def reduce(self) -> None:
        """Block until the gradients that this rank owns are summed over all ranks."""
        while self._unreduced:
            self._reduce_next()
        for work in self._reducing:
            work.wait()
        self._reducing.clear()

    def share(self, bucket: int) -> None:
        """Send the updated parameters of a bucket to the ranks that need them."""
        view = self._flat.parameters[self._flat.layout.buckets[bucket].slice]
        self._sharing[bucket] = list(self._strategy.share(self._comm, view))
        if not self._strategy.overlapped:
            self._wait_for_share(bucket)

    def settle(self) -> None:
        """Block until this rank holds all updated parameters."""
        for bucket in sorted(self._sharing):
            self._wait_for_share(bucket)

    def _on_gradient(self, total: Tensor, bucket: int, parameter: Tensor) -> None:
        assert parameter.grad is not None  # noqa: S101 - autograd calls this once it is there
        if self._first:
            total.copy_(parameter.grad)
        else:
            total.add_(parameter.grad)
        parameter.grad = None
        self._missing[bucket] -= 1
        if self._last and self._strategy.overlapped:
            # In the same order on every rank, whatever order autograd chose.
            while self._unreduced and not self._missing[self._unreduced - 1]:
                self._reduce_next()

    def _reduce_next(self) -> None:
        self._unreduced -= 1
        bucket = self._flat.layout.buckets[self._unreduced]
        self._reducing += self._strategy.reduce(self._comm, self._flat.gradients[bucket.slice])

    def _before_forward(self, buckets: list[int], *_unit_and_inputs: object) -> None:
        for bucket in buckets:
            if bucket in self._sharing:
                self._wait_for_share(bucket)

    def _wait_for_share(self, bucket: int) -> None:
        for work in self._sharing.pop(bucket):
            work.wait()
