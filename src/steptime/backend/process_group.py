"""The process group ``steptime`` as torch.distributed calls it."""

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from steptime.backend import requests
from steptime.backend.dispatch import on_cpu
from steptime.backend.engine import Engine
from steptime.backend.host import empty
from steptime.backend.lanes import Crew, Lane
from steptime.backend.operations import Operation, in_turn
from steptime.backend.quick import DEFAULT, quick
from steptime.backend.reduction import Reduction
from steptime.backend.requests import premultiplied, reduction
from steptime.backend.routes import Routes
from steptime.backend.work import DONE, Done
from steptime.errors import UsageError
from steptime.world import compat
from steptime.world.python_group import PythonGroup

NAME = "steptime"


class SteptimeGroup(PythonGroup):
    """The collectives and messages of one group of ranks, on CPU tensors of any dtype and strides.

    A call with ``asyncOp`` runs in a thread of the group, in order, and any other in the caller's.
    Messages run in threads of their own, one for each peer, direction and tag, in order.

    Every call raises UsageError for tensors that it cannot take, and SteptimeError or
    LostContactError as Engine does: a call in the caller's thread at once, any other in ``wait``,
    through its future, and from every later call.
    """

    def __init__(
        self,
        engine: Engine,
        names: requests.Names,
        store: compat.Store,
        nccl: Callable[[], Any],
    ) -> None:
        """A group whose collectives ``engine`` does; ``nccl`` makes the group of CUDA tensors."""
        super().__init__(NAME, engine.rank, engine.ranks, store)
        self._rank, self._ranks = engine.rank, engine.ranks
        self._engine = engine
        self._names = names
        self._make_nccl = nccl
        self._nccl: Any = None
        self._crew = crew = Crew()
        self._lane = Lane("the collectives of a group", crew)
        self._quick = quick(engine, names, self._lane)
        self._routes = routes = Routes(engine, names)
        self._out, self._back = routes.out, routes.back
        # Also where nobody destroys the group, at the latest when the interpreter exits.
        self._leave = weakref.finalize(self, _leave, os.getpid(), engine, crew, self._lane, routes)

    # Where tensors may lie

    @property
    def _device_types(self) -> list[torch.device]:
        """On which devices tensors may lie, as the checkpoints of torch ask before they save.

        On none while the group is made: torch 2.15 asks then whether to attach its flight recorder,
        in C++, which fails on a group that is a Python class.
        """
        if not compat.is_registered(self):
            return []
        return [torch.device(kind) for kind in ("cpu", *(["cuda"] if compat.has_nccl() else []))]

    def _get_backend(self, device: torch.device) -> Any:
        return self if torch.device(device).type == "cpu" else self.accelerator(device)

    def accelerator(self, device: torch.device) -> Any:
        """The NCCL group that communicates CUDA tensors, made at its first use.

        Raises UsageError where there is no CUDA GPU.
        """
        if torch.device(device).type != "cuda" or not compat.has_nccl():
            raise UsageError(
                f"the backend steptime cannot communicate a tensor on {device}: move it to the "
                "CPU, or run with the backend cpu:steptime,cuda:nccl where torch has CUDA and NCCL"
            )
        if self._nccl is None:
            self._nccl = self._make_nccl()
        return self._nccl

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Whether ``allocate_tensor`` makes tensors there, as FSDP2 asks, told to take its own."""
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """An uninitialised tensor of shape (size,) that needs no copy to be communicated.

        Raises SteptimeError where the host has too little memory for it.
        """
        if not self.supports_tensor_alloc(device):
            raise UsageError(f"the backend steptime allocates tensors on the CPU, not on {device}")
        return empty(size, dtype=dtype)

    def shutdown(self) -> None:
        """Finish the collectives in progress and free what the group holds."""
        self._lane.finish()
        self._leave()
        if self._nccl is not None:
            self._nccl.shutdown()

    def abort(self) -> None:
        """Free what the group holds; calls in progress fail."""
        self._engine.close()

    # Collectives

    @compat.left_alone
    def barrier(self, opts: Any = DEFAULT) -> compat.Work:
        """Every rank waits for all; the timeout, if given, bounds the wait."""
        if opts.device is not None and opts.device.type != "cpu":
            work: compat.Work = self.accelerator(opts.device).barrier(opts)
            return work
        if opts.timeout == compat.UNSET_TIMEOUT:
            return self._do(opts, [], requests.barrier())
        operation, arguments = requests.barrier()
        work = self._lane.start([], operation, self._engine, *arguments)
        if not opts.asyncOp:
            work.wait(opts.timeout)
        return work

    @compat.left_alone
    def allreduce(  # type: ignore[override]
        self, tensors: list[Tensor], opts: Any = DEFAULT
    ) -> compat.Work:
        """Reduce the only tensor of ``tensors`` over all ranks, in place."""
        if self._quick.all_reduce(tensors, opts):
            return DONE
        tensor = tensors[0]
        if not tensor.is_cpu:
            return self._on_accelerator(tensor, "allreduce", tensors, opts)
        request = requests.all_reduce(tensor, reduction(opts.reduceOp, tensor))
        return self._do(opts, tensors, premultiplied(opts.reduceOp, request))

    def all_reduce_by(
        self, tensors: list[Tensor], op: Reduction, opts: Any = DEFAULT
    ) -> compat.Work:
        """``allreduce`` by any Reduction, a user's own too."""
        (tensor,) = tensors
        return self._do(opts, tensors, requests.all_reduce(tensor, op))

    @on_cpu
    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = DEFAULT) -> compat.Work:
        """Reduce each of the tensors."""
        each = [
            premultiplied(opts.reduceOp, requests.all_reduce(t, reduction(opts.reduceOp, t)))
            for t in tensors
        ]
        return self._do(opts, tensors, _together(each))

    @compat.left_alone
    def broadcast(  # type: ignore[override]
        self, tensors: list[Tensor], opts: Any = DEFAULT
    ) -> compat.Work:
        """Copy the root's tensor into everyone's."""
        if self._quick.broadcast(tensors, opts):
            return DONE
        (tensor,) = tensors
        if not tensor.is_cpu:
            return self._on_accelerator(tensor, "broadcast", tensors, opts)
        return self._do(
            opts, tensors, requests.broadcast(self._rank, self._names, tensor, opts.rootRank)
        )

    @on_cpu
    def reduce(self, tensors: list[Tensor], opts: Any = DEFAULT) -> compat.Work:
        """Reduce into the root's tensor."""
        (tensor,) = tensors
        op = reduction(opts.reduceOp, tensor)
        request = requests.reduce(self._rank, self._names, tensor, opts.rootRank, op)
        return self._do(opts, tensors, premultiplied(opts.reduceOp, request))

    @on_cpu
    def allgather(
        self,
        outputs: list[list[Tensor]],
        inputs: list[Tensor],
        opts: Any = DEFAULT,
    ) -> compat.Work:
        """Fill the outputs with the tensors of all ranks, which may differ in size."""
        (landing,), (tensor,) = outputs, inputs
        return self._do(
            opts, landing, requests.all_gather(self._rank, self._ranks, landing, tensor)
        )

    @on_cpu
    def allgather_coalesced(
        self,
        outputs: list[list[Tensor]],
        inputs: list[Tensor],
        opts: Any = DEFAULT,
    ) -> compat.Work:
        """Fill ``outputs[i]`` with the tensors of rank i."""
        each = requests.all_gather_coalesced(self._rank, self._ranks, outputs, inputs)
        return self._do(opts, [t for landing in outputs for t in landing], _together(each))

    @compat.left_alone
    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = DEFAULT) -> compat.Work:
        """Fill the output with the tensors of all ranks, concatenated."""
        if self._quick.all_gather_single(output, tensor, opts):
            return DONE
        if not output.is_cpu:
            return self._on_accelerator(output, "all_gather_single", output, tensor, opts)
        return self._do(opts, [output], requests.all_gather_single(self._ranks, output, tensor))

    @on_cpu
    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = DEFAULT
    ) -> compat.Work:
        """``all_gather_single`` for each pair of output and input."""
        each = [
            requests.all_gather_single(self._ranks, output, tensor)
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
        return self._do(opts, outputs, _together(each))

    @on_cpu
    def reduce_scatter(
        self,
        outputs: list[Tensor],
        inputs: list[list[Tensor]],
        opts: Any = DEFAULT,
    ) -> compat.Work:
        """Fill the output with the reduction of everyone's input for this rank."""
        (output,), (given,) = outputs, inputs
        op = reduction(opts.reduceOp, output)
        request = requests.reduce_scatter(self._rank, self._ranks, output, given, op)
        return self._do(opts, outputs, premultiplied(opts.reduceOp, request))

    @compat.left_alone
    def reduce_scatter_single(
        self, output: Tensor, tensor: Tensor, opts: Any = DEFAULT
    ) -> compat.Work:
        """Fill the output with this rank's part of the reduction of the input."""
        if self._quick.reduce_scatter_single(output, tensor, opts):
            return DONE
        if not output.is_cpu:
            return self._on_accelerator(output, "reduce_scatter_single", output, tensor, opts)
        op = reduction(opts.reduceOp, output)
        request = requests.reduce_scatter_single(self._ranks, output, tensor, op)
        return self._do(opts, [output], premultiplied(opts.reduceOp, request))

    @on_cpu
    def reduce_scatter_single_coalesced(
        self,
        outputs: list[Tensor],
        inputs: list[Tensor],
        opts: Any = DEFAULT,
    ) -> compat.Work:
        """``reduce_scatter_single`` for each pair of output and input."""
        each = [
            premultiplied(
                opts.reduceOp,
                requests.reduce_scatter_single(
                    self._ranks, output, tensor, reduction(opts.reduceOp, output)
                ),
            )
            for output, tensor in zip(outputs, inputs, strict=True)
        ]
        return self._do(opts, outputs, _together(each))

    @on_cpu
    def gather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = DEFAULT
    ) -> compat.Work:
        """Fill the root's outputs with everyone's tensor."""
        (tensor,) = inputs
        landing = outputs[0] if self._rank == opts.rootRank else None
        request = requests.gather(self._names, landing, tensor, opts.rootRank)
        return self._do(opts, landing or [], request)

    @on_cpu
    def gather_single(self, output: Tensor, tensor: Tensor, opts: Any = DEFAULT) -> compat.Work:
        """Fill the root's output with everyone's tensor, concatenated; torch 2.15 asks for it."""
        landing = output if self._rank == opts.rootRank else None
        request = requests.gather_single(self._names, landing, tensor, opts.rootRank)
        return self._do(opts, [output], request)

    @on_cpu
    def scatter(
        self,
        outputs: list[Tensor],
        inputs: list[list[Tensor]],
        opts: Any = DEFAULT,
    ) -> compat.Work:
        """Fill everyone's output with its part of the root's inputs."""
        (output,) = outputs
        given = inputs[0] if self._rank == opts.rootRank else None
        return self._do(opts, outputs, requests.scatter(self._names, output, given, opts.rootRank))

    @on_cpu
    def alltoall(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = DEFAULT
    ) -> compat.Work:
        """Fill ``outputs[i]`` with rank i's input for this rank; sizes may differ."""
        return self._do(opts, outputs, requests.all_to_all(self._ranks, outputs, inputs))

    @compat.left_alone
    def all_to_all_single(
        self,
        output: Tensor,
        tensor: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = DEFAULT,
    ) -> compat.Work:
        """``alltoall`` whose parts are consecutive rows of one output and one input.

        ``output_splits`` and ``input_splits``: the rows from and to each rank.
        """
        if self._quick.all_to_all_single(output, tensor, output_splits, input_splits, opts):
            return DONE
        if not output.is_cpu:
            given = (output, tensor, output_splits, input_splits, opts)
            return self._on_accelerator(output, "all_to_all_single", *given)
        request = requests.all_to_all_single(
            self._ranks, output, tensor, output_splits, input_splits
        )
        return self._do(opts, [output], request)

    # What torch called these before 2.13, and still does in places

    _allgather_base: Any = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base: Any = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base: Any = all_to_all_single

    # Messages

    @compat.left_alone
    def send(self, tensors: list[Tensor], peer: int, tag: int) -> compat.Work:
        """Send the only tensor of ``tensors`` to a rank of the group."""
        route = self._out.get((peer, tag))
        if route is not None and route.send(tensors):
            return DONE
        tensor = tensors[0]
        if not tensor.is_cpu:
            return self._on_accelerator(tensor, "send", tensors, peer, tag)
        return self._routes.send(tensors, peer, tag)

    @compat.left_alone
    def recv(self, tensors: list[Tensor], peer: int, tag: int) -> compat.Work:
        """Receive into the only tensor of ``tensors`` from a rank of the group."""
        # Made beforehand: once the message has arrived, every line takes time that one waits for.
        done = Done(tensors, peer)
        route = self._back.get((peer, tag))
        if route is not None and route.receive(tensors):
            return done
        tensor = tensors[0]
        if not tensor.is_cpu:
            return self._on_accelerator(tensor, "recv", tensors, peer, tag)
        return self._routes.receive(tensors, peer, tag, done)

    @on_cpu
    def recv_anysource(self, tensors: list[Tensor], tag: int) -> compat.Work:
        """Receive into the only tensor of ``tensors`` from whichever rank sends first."""
        return self._routes.receive_any(tensors, tag)

    # How requests are carried out

    def _on_accelerator(self, tensor: Tensor, name: str, *arguments: Any) -> compat.Work:
        """A call of the group of CUDA tensors, where a method takes less time than ``on_cpu``."""
        work: compat.Work = getattr(self.accelerator(tensor.device), name)(*arguments)
        return work

    def _do(self, opts: Any, results: Sequence[Tensor], request: Operation) -> compat.Work:
        operation, arguments = request
        if opts.asyncOp:
            return self._lane.start(results, operation, self._engine, *arguments)
        self._lane.run(operation, self._engine, *arguments)
        return DONE


def _leave(pid: int, engine: Engine, crew: Crew, lane: Lane, routes: Routes) -> None:
    """Leave a group and wait for the end of its threads; does nothing in a forked child process."""
    if os.getpid() == pid:
        engine.close()
        crew.close((lane,))
        routes.crew.close(routes.lanes.values())


def _together(each: Sequence[Operation]) -> Operation:
    return in_turn, (each,)
