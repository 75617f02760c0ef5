"""Models, most of all under DistributedDataParallel: how the script runs and moves them."""

import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from steptime.check.observe.arguments import given
from steptime.check.observe.buffers import tensors_in
from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import hash_of, readable, samples_of
from steptime.check.observe.evaluations import Evaluations
from steptime.check.observe.model import Model
from steptime.check.observe.settings import Settings
from steptime.check.observe.statistics import Statistics
from steptime.check.observe.tensors import is_constant, is_sharded
from steptime.check.observe.thrown_away import ThrownAway
from steptime.check.observe.wiped import Wiped
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site
from steptime.world import compat

WRAPPED = "wrapped"
"""What is noted of a model before DDP wraps it, which asks the ranks whether theirs are alike."""

BEGUN = "begun"
"""What is noted of a model that DDP reduces among some of the ranks alone, as it begins."""

_LOSSES = torch.nn.CrossEntropyLoss.__module__
"""Where PyTorch's own losses are; what a script makes of them may have a rank of its own in it."""

_NORMS = ("LayerNorm", "RMSNorm")
"""How the names of classes end whose modules normalise each token by itself."""

RUNS = [0]
"""How many modules have begun a forward in this process, and calls of c10d in groups of several
ranks were made: who looks twice knows if any was in between."""

CLEARED = "cleared"
"""What is noted once of a model whose gradients are used, and cleared, between two backwards of a
step."""


class Models:
    """All models under DDP in this process, from ``install`` to what it returns.

    ``backwards``: how many the script has made, of whatever. ``in_backward``, ``wrapping``: it is
    within one, or DDP wraps a model, which asks the ranks for its shapes. ``shard_ranks``: the
    ranks of each mesh over which ``fully_shard`` has sharded a model that has run. ``norms``: those
    modules that have run and normalise each token by itself. ``holds_back``: the last forward under
    ``fully_shard`` was one whose gradients are not to be reduced. ``before_backward``: who is
    told what a backward begins at; ``after_backward``: and that it has ended; ``before_pass``: who
    is told of the first module that runs then, and what it or a part of it takes first, where the
    script has to reduce its gradients. ``norm_input``: some elements of what the first of ``norms``
    was given first.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.known: list[Model] = []
        self._of_module: weakref.WeakKeyDictionary[torch.nn.Module, Model] = (
            weakref.WeakKeyDictionary()
        )
        self._wrapped: Counter[tuple[int, ...]] = Counter()
        self.in_backward = self.wrapping = self.holds_back = False
        self.backwards = 0
        self.before_backward: list[Callable[[Sequence[Any]], object]] = []
        self.after_backward: list[Callable[[], object]] = []
        self.before_pass: list[Callable[[torch.nn.Module, Sequence[Any]], object]] = []
        self._passes = self._has_told = False
        self._whole: Callable[[], torch.nn.Module | None] = lambda: None
        self.norm_input: list[float] = []
        self.evaluations, self._settings = Evaluations(log), Settings(log)
        self.wiped, self.thrown_away = Wiped(log), ThrownAway(log)
        contained = Contained("settings")
        self._training_begun = contained.of(self._settings.begun)
        self._loss_begun = contained.of(self._settings.of_loss)
        self.statistics = Statistics(log)
        self._keeps = Contained("statistics").of(self.statistics.running)
        thrown_away = Contained("gradients that are thrown away")
        self._runs = thrown_away.of(self.thrown_away.running)
        self.before_backward.append(thrown_away.of(self.thrown_away.begin))
        self.after_backward.append(thrown_away.of(self.thrown_away.end))
        self.norms: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.shard_ranks: set[tuple[int, ...]] = set()
        self._sharded: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()

    def ids(self) -> set[int]:
        """The identities of the parameters that should be the same on all ranks."""
        return {id(one) for model in self.known for _, one in model.replicated()}

    def install(self) -> Callable[[], None]:
        """See models as they are wrapped, run and moved; the result ends that."""
        ddp: Any = DistributedDataParallel
        module: Any = torch.nn.Module
        replaced = [
            (ddp, "__init__", self._wrapping(ddp.__init__)),
            (ddp, "forward", self._running(ddp.forward)),
            (module, "_apply", self._moving(module._apply)),
            (torch.autograd, "backward", self._backward(torch.autograd.backward)),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        for owner, name, function in replaced:
            setattr(owner, name, function)
        handles = [
            register_module_forward_pre_hook(self._before_forward),
            register_module_forward_hook(self._after_forward),
        ]

        of_shards = Contained("evaluations").of(self._of_shards)
        unwatched = once_imported(compat.SHARDED, lambda: compat.watch_sharded_forwards(of_shards))

        def remove() -> None:
            unwatched()
            for handle in handles:
                handle.remove()
            for owner, name, function in before:
                setattr(owner, name, function)

        return remove

    def _wrapping(self, init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def wrapping(wrapped: Any, *arguments: Any, **options: Any) -> None:
            self._note(given(init, wrapped, *arguments, **options))
            self.wrapping = True
            try:
                init(wrapped, *arguments, **options)
            finally:
                self.wrapping = False
            model = Model(wrapped, len(self.known))
            self.known.append(model)
            model.wrapped_at = site(self._log)
            if model.looks:
                for parameter in wrapped.module.parameters():
                    if parameter.requires_grad:
                        parameter.register_post_accumulate_grad_hook(_used_by(model))
            for module in wrapped.modules():
                self._of_module[module] = model

        return wrapping

    def _note(self, named: dict[str, Any]) -> None:
        """Note what a model consists of that is to be wrapped, with what DDP is given."""
        module, mesh = named.get("module"), named.get("device_mesh")
        if not dist.is_initialized() or not isinstance(module, torch.nn.Module):
            return  # DDP says so
        if mesh is not None and mesh.ndim > 1:
            return
        group = mesh.get_group() if mesh is not None else named.get("process_group")
        ranks = compat.ranks_of(group or dist.group.WORLD)
        if len(ranks) < 2:
            return
        self._wrapped[ranks] += 1
        trained = [
            (name, list(one.shape))
            for name, one in module.named_parameters()
            if one.requires_grad and not is_lazy(one)
        ]
        self._log.note(
            observed=WRAPPED,
            model=type(module).__name__,
            ranks=list(ranks),
            number=self._wrapped[ranks],
            parameters=trained,
            buffers=[(name, list(one.shape)) for name, one in module.named_buffers()],
            at=site(self._log),
        )

    def _note_begin(self, model: Model, ranks: Sequence[int]) -> None:
        """Note the parameters that a model begins with, but for those that begin alike anywhere."""
        if not all(map(readable, (one for _, one in model.replicated()))):
            return  # in a later forward
        model.has_begun = True
        told = [
            (name, one)
            for name, one in model.replicated()
            if one.requires_grad and not is_sharded(one) and not is_constant(one)
        ]
        self._log.note(
            observed=BEGUN,
            model=f"{model.name} {model.number}",
            ranks=list(ranks),
            names=[name for name, _ in told],
            hashes=[hash_of([one]) for _, one in told],
            at=model.wrapped_at,
        )

    def _running(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def running(wrapped: Any, *arguments: Any, **options: Any) -> Any:
            model = None if torch.compiler.is_compiling() else self._of_module.get(wrapped)
            if model is None:
                return forward(wrapped, *arguments, **options)
            if torch.is_grad_enabled():
                if not self._settings.knows(wrapped):
                    group = wrapped.process_group
                    self._training_begun(wrapped, lambda: compat.ranks_of(group))
                if model.in_part and not model.has_begun:
                    self._note_begin(model, compat.ranks_of(wrapped.process_group))
                self._count(model, quiet=not wrapped.require_backward_grad_sync)
            model.inside += 1
            try:
                return forward(wrapped, *arguments, **options)
            finally:
                model.inside -= 1
                if model.forward_end:
                    model.looking_ns += time.perf_counter_ns() - model.forward_end
                    model.forward_end = 0

        return running

    def _count(self, model: Model, *, quiet: bool) -> None:
        """Count a forward; of one whose backward is reduced see whether it adds to gradients."""
        model.ends_quiet = quiet
        self.wiped.running(model, self.backwards, quiet=quiet)
        if quiet:
            model.quiet += 1
            model.kept += 1
            return
        self._runs(model)
        if not model.armed:
            model.begun = self.backwards
        elif self.backwards > model.begun and not model.cleared and model.is_cleared():
            model.cleared = True
            self._log.note(observed=CLEARED, model=f"{model.name} {model.number}")
        model.armed += 1

    def _before_forward(self, module: torch.nn.Module, taken: Sequence[Any]) -> None:
        """A module is run: beside DDP where it is part of a model and DDP is not at work.

        Checkpointing runs parts again in backward, which is right. The compiler is to see nothing
        of this: it would put it into the graph, or give up.
        """
        if torch.compiler.is_compiling():
            return
        RUNS[0] += 1
        if not self._has_told and torch.is_grad_enabled() and not self.in_backward:
            self._begin_pass(module, taken)
        if type(module).__name__.endswith(_NORMS):
            self._see_norm(module, taken)
        elif type(module).__module__ == _LOSSES:
            self._loss_begun(module)
        if module._buffers and module.training:
            self._keeps(module, sent=any(one.sends_buffers for one in self.known if one.inside))
        model = self._of_module.get(module)
        if model is None or model.inside or self.in_backward or model.bypassed_at:
            return
        if torch.is_grad_enabled() and not isinstance(module, DistributedDataParallel):
            model.bypassed_at = site(self._log)

    def _begin_pass(self, module: torch.nn.Module, taken: Sequence[Any]) -> None:
        """A module runs first after a backward: a model, if neither DDP nor FSDP has any.

        What a model is given by keyword no hook is told: then the first of its parts tells that
        is given anything by position, as an embedding is.
        """
        parameter = next(module.parameters(), None) if module.training else None
        if parameter is None:
            return  # it augments what the model is given, or tells its features
        begins, self._passes = not self._passes, True
        is_own = not is_sharded(parameter)
        if begins:
            self._whole = weakref.ref(module)
            self._has_told = bool(self.known or self.shard_ranks or not is_own)
            if not self._has_told and not self._settings.knows(module):
                self._training_begun(module, lambda: ())
        if is_own and not self._has_told and any(True for _ in tensors_in(taken)):
            self._has_told = True
            whole = self._whole()
            for told in self.before_pass:
                told(module if whole is None else whole, taken)

    def _see_norm(self, module: torch.nn.Module, taken: Sequence[Any]) -> None:
        """A module that normalises each token is run: of the first one remember its input."""
        self.norms.add(module)
        first = taken[0] if taken and not self.norm_input else None
        if type(first) is torch.Tensor and first.numel() and readable(first):
            self.norm_input = samples_of(first)

    def _after_forward(self, module: torch.nn.Module, taken: Any, made: Any) -> None:
        """A model has run, under DDP or beside it, or a part of one."""
        if torch.compiler.is_compiling():
            return
        model = self._of_module.get(module)
        wrapped = model.wrapped() if model is not None else None
        if model is None or wrapped is None or wrapped.module is not module:
            return
        if not torch.is_grad_enabled():
            ranks = compat.ranks_of(wrapped.process_group)
            self.evaluations.ran(model.number, ranks, self.backwards, taken, made)
        elif model.looks:  # what DDP does from here to the end of its own forward
            model.forward_end = time.perf_counter_ns()

    def _of_shards(
        self,
        module: torch.nn.Module,
        state: Any,
        arguments: Sequence[Any],
        options: Mapping[str, Any],
    ) -> None:
        """A model under ``fully_shard`` begins a forward: without gradients it is evaluated."""
        self.shard_ranks.add(compat.ranks_of_shards(state))
        self.holds_back = torch.is_grad_enabled() and not compat.shards_reduce(state)
        if torch.is_grad_enabled() and not self._settings.knows(module):
            self._training_begun(module, lambda: compat.ranks_of_shards(state))
        if not torch.is_grad_enabled():
            number = self._sharded.setdefault(module, -1 - len(self._sharded))
            ranks, named = compat.ranks_of_shards(state), [*options.values()]
            self.evaluations.ran(number, ranks, self.backwards, arguments, named)

    def _moving(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(apply)
        def moving(module: Any, *arguments: Any, **options: Any) -> Any:
            model = self._of_module.get(module)
            before = _kinds(module) if model is not None else []
            result = apply(module, *arguments, **options)
            if model is not None and _kinds(module) != before:
                model.moved_at = site(self._log)
            return result

        return moving

    def _backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def noted(*arguments: Any, **options: Any) -> Any:
            self.in_backward = True
            self.backwards += 1
            # No iterator, which backward itself is to go through.
            given = arguments[0] if arguments else options.get("tensors")
            roots = given if isinstance(given, list | tuple) else [given]
            for told in self.before_backward:
                told(roots)
            try:
                result = backward(*arguments, **options)
            finally:
                self.in_backward = self._passes = self._has_told = False
            for ended in self.after_backward:
                ended()
            return result

        return noted


def _used_by(model: Model) -> Callable[[torch.Tensor], None]:
    return lambda parameter: model.used.add(id(parameter))


def _kinds(module: torch.nn.Module) -> list[tuple[torch.dtype, torch.device]]:
    return [(one.dtype, one.device) for one in module.parameters()]
