"""Left out: parameters whose gradients nobody reduces, where those of the others are."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.models import Models
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.reduced import Reduced
from steptime.check.observe.tensors import is_constant, is_hooked, is_sharded
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import compat

LEFT_OUT = "left out"
"""What is noted of parameters whose gradients are not reduced, though others' are."""

RING = "ring"
"""What is noted of ranks that hand on parts of a sequence within a layer."""

BY_HAND, BY_DDP, BY_FSDP = "the script", "DistributedDataParallel", "fully_shard"
"""Who reduces those of the others."""

BESIDE_SHARDS = "beside shards"
"""They are all that the optimizer has, beside a model that ``fully_shard`` has sharded: adapters
that came after it, as in LoRA."""

OF_NORMS = "norms"
"""They are of norms, which ranks have whole where they share layers; nobody reduces any."""

OF_OTHERS = "others"
"""The same of what is no norm, where the ranks' other parameters are parts of layers."""

OF_ALL = "all"
"""They are all there are: nobody reduces any, of ranks that have parts of a sequence, it seems."""

OF_RING = "ring"
"""The same of ranks that hand such parts on round a ring."""

OF_EXPERTS = "experts"
"""They are of ranks that have experts, or tables, of their own: what all have beside them is."""

OF_COPIES = "copies"
"""They are all there are: what was reduced is none of them, but may be copies of most."""

OF_MESH = "mesh"
"""They are all that is whole beside parameters that ranks of one axis have shards of."""

OF_SHARDS = "shards"
"""They are shards along some of the ranks, which others may have too, as those of a tensor axis."""

OF_FEWER = "fewer"
"""The same beside others that are spread over all ranks, as shards of which there are replicas."""

_FEW = 0.5
"""The part of all elements that they may be: of a model that ranks share most is not reduced."""


_Trained: TypeAlias = tuple[int, torch.Tensor, torch.Tensor]
"""A parameter by its place in the optimizer, and its gradient."""


class LeftOut:
    """What an optimizer trains before its first step, and what of it was reduced until then."""

    def __init__(self, log: Log, models: Models, reduced: Reduced) -> None:
        self._log = log
        self._models = models
        self._reduced = reduced

    def see(self, number: int, optimizer: Any) -> None:
        """Note the parameters of the optimizer ``number`` whose gradients are not reduced."""
        every = parameters_of(optimizer)
        of_models = {id(one) for model in self._models.known for one in model.parameters()}
        trained = [
            (at, one, one.grad)
            for at, one in enumerate(every)
            if one.grad is not None and id(one) not in of_models and not is_sharded(one)
        ]
        gradients = [grad for *_, grad in trained]
        for ring in self._reduced.rings:
            self._log.note(observed=RING, ranks=list(ring))
        left = [each for each in trained if not self._reduced.ranks_of(each[2])]
        by, ranks = self._who(every, gradients)
        self._see_meshes(number, every, trained)
        if not by and self._reduced.sums and not (self._reduced.shares or self._reduced.splitting):
            self._note(number, OF_COPIES, tuple(range(dist.get_world_size())), trained)
        if by in ("", BY_HAND) and (self._reduced.shares or not by):
            self._see_shared(number, trained, left, by)
        elif not self._reduced.shares:
            of_all = sum(one.numel() for one in every if one.grad is not None)
            size = sum(one.numel() for _, one, _ in left)
            few = size <= _FEW * of_all or by == BESIDE_SHARDS
            if ranks and self._reduced.only(gradients) and few:
                self._note(number, by, ranks, left)

    def _see_meshes(self, number: int, every: Sequence[Any], trained: Sequence[_Trained]) -> None:
        """What ranks of a tensor axis have alike beside their shards, be it whole or in parts."""
        if not self._models.shard_ranks and (mesh := _one_mesh(every)):
            self._note(number, OF_MESH, mesh, trained)
        if shards := _along_some(every):
            place = every[shards[0][0]].device_mesh.get_local_rank()
            by = OF_FEWER if any(map(_is_replicated, every)) else OF_SHARDS
            self._note(number, by, tuple(range(dist.get_world_size())), shards, place)

    def _see_shared(
        self, number: int, trained: Sequence[_Trained], left: Sequence[_Trained], by: str
    ) -> None:
        """The same where ranks share each layer, and what a rank has whole may be left out."""
        rings = self._reduced.rings
        splits = self._reduced.splits_layers or self._reduced.splitting or rings
        if not splits or not dist.is_initialized():
            return
        alone = not by and not self._reduced.since_backward()
        reduced = {self._reduced.ranks_of(grad) for *_, grad in trained}
        for ring in rings if by or alone else ():
            if not any(set(ring) <= set(among) for among in reduced):
                self._note(number, OF_RING, ring, trained)
        ranks = tuple(range(dist.get_world_size()))
        if self._reduced.of_parts:
            if by and not self._reduced.sends:
                own = [each for each in left if not is_constant(each[1])]
                self._note(number, OF_EXPERTS, ranks, own)
            return
        norms = {id(one) for norm in self._models.norms for one in norm.parameters()}
        if by or alone:
            others = [
                each for each in left if id(each[1]) not in norms and not is_constant(each[1])
            ]
            self._note(number, OF_NORMS, ranks, [each for each in left if id(each[1]) in norms])
            self._note(number, OF_OTHERS, ranks, others)
        if alone and not rings:
            self._note(number, OF_ALL, ranks, trained)

    def _note(
        self,
        number: int,
        by: str,
        ranks: tuple[int, ...],
        left: Sequence[_Trained],
        place: int = -1,
    ) -> None:
        # What a hook does with a gradient is done by the step, but nobody knows which it reduced.
        hooked = by != OF_COPIES and any(is_hooked(one) for _, one, _ in left)
        left = [each for each in left if not each[2].is_sparse]
        if not left or hooked or not all(readable(one) for _, one, _ in left):
            return
        self._log.note(
            observed=LEFT_OUT,
            optimizer=number,
            by=by,
            ranks=list(ranks),
            at=site(self._log),
            names=[f"parameter {at}" for at, *_ in left],
            values=[hash_of([one]) for _, one, _ in left],
            gradients=[hash_of([grad]) for *_, grad in left],
            constant=[is_constant(grad) for *_, grad in left],
            signs=[hash_of([grad > 0]) for *_, grad in left],
            largest=[float(grad.abs().max()) for *_, grad in left],
            splitting=sorted(self._reduced.splitting),
            returning=sorted(self._reduced.returning),
            norm_input=self._models.norm_input,
            place=place,
        )

    def _who(
        self, every: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
    ) -> tuple[str, tuple[int, ...]]:
        """Who reduces other gradients of the optimizer, and among which ranks; none: nobody."""
        by_hand = {of for grad in gradients if (of := self._reduced.ranks_of(grad))}
        if by_hand:
            return BY_HAND, by_hand.pop() if len(by_hand) == 1 else ()
        world = tuple(range(dist.get_world_size())) if dist.is_initialized() else ()
        if len(world) < 2:
            return "", ()
        owned = {id(one) for one in every if one.grad is not None}
        for model in self._models.known:
            wrapped = model.wrapped()
            if wrapped is not None and any(id(one) in owned for _, one in model.replicated()):
                of_all = compat.ranks_of(wrapped.process_group) == world
                return BY_DDP, world if of_all and model.armed else ()
        over = world if self._models.shard_ranks == {world} else ()
        if any(is_sharded(one) and one.grad is not None for one in every):
            return BY_FSDP, over
        return (BESIDE_SHARDS, over) if over and owned else ("", ())


def _one_mesh(parameters: Sequence[Any]) -> tuple[int, ...]:
    """The ranks along which all trained shards lie; none where not all lie along the same."""
    shards = [one for one in parameters if is_sharded(one) and one.grad is not None]
    meshes = {tuple(one.device_mesh.mesh.flatten().tolist()) for one in shards}
    return meshes.pop() if len(meshes) == 1 else ()


def _is_replicated(parameter: Any) -> bool:
    """Whether ``fully_shard`` has spread a parameter over a mesh of all ranks, in replicas.

    Their axis comes first, as that of tensors comes last.
    """
    if not is_sharded(parameter) or parameter.grad is None:
        return False
    of_all = parameter.device_mesh.size() == dist.get_world_size()
    return bool(of_all and parameter.placements[0].is_replicate())


def _along_some(parameters: Sequence[Any]) -> list[_Trained]:
    """What is spread along an axis that has not all ranks, as this rank's shards."""
    return [
        (at, one.detach().to_local(), one.grad.to_local())
        for at, one in enumerate(parameters)
        if is_sharded(one)
        and one.grad is not None
        and one.device_mesh.ndim == 1
        and 1 < one.device_mesh.size() < dist.get_world_size()
    ]
