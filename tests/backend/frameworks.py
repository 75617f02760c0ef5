"""Scripts that know nothing of a backend: each trains or computes a little and returns tensors.

Sums of two ranks are exact in any order, so every backend must give the same bits.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from steptime.backend import data_parallel


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))


def _train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3, *, clip: bool = False
) -> list[torch.Tensor]:
    """The losses, after a few steps on data that differ by rank."""
    torch.manual_seed(1 + dist.get_rank())
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def _ddp(
    wrap: Callable[..., nn.Module] = nn.parallel.DistributedDataParallel, **options: Any
) -> list[torch.Tensor]:
    # Buckets so small that several are in flight while the backward pass goes on.
    model = wrap(_model(), bucket_cap_mb=0.001, **options)
    losses = _train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return losses + [p.detach() for p in model.parameters()] + list(model.buffers())


def ddp(_: Path) -> list[torch.Tensor]:
    return _ddp()


def ddp_static_graph_bucket_views(_: Path) -> list[torch.Tensor]:
    return _ddp(static_graph=True, gradient_as_bucket_view=True)


def ddp_unused_parameters(_: Path) -> list[torch.Tensor]:
    return _ddp(find_unused_parameters=True)


def ddp_in_the_arena(_: Path) -> list[torch.Tensor]:
    return _ddp(data_parallel)


def ddp_hooks(_: Path) -> list[torch.Tensor]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def own_hook(_: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    results = []
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    for hook, given in (
        (own_hook, None),
        (default_hooks.allreduce_hook, None),
        (default_hooks.fp16_compress_hook, None),
        (powerSGD_hook.powerSGD_hook, state),
    ):
        model = nn.parallel.DistributedDataParallel(_model())
        model.register_comm_hook(given, hook)
        results += _train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return results


def ddp_join_uneven(_: Path) -> list[torch.Tensor]:
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    with model.join():
        for _step in range(2 + dist.get_rank()):
            model(torch.ones(4, 3)).sum().backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def zero_redundancy_optimizer(_: Path) -> list[torch.Tensor]:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    losses = _train(model, optimizer)
    optimizer.consolidate_state_dict(to=0)
    return losses + [p.detach() for p in model.parameters()]


def fsdp2(folder: Path) -> list[torch.Tensor]:
    """Training, mixed precision, clipping; then a sharded checkpoint saved and loaded."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor

    def sharded(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(16, 65), nn.ReLU(), nn.Linear(65, 4))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in (model[0], model[2]):
            fully_shard(layer, mp_policy=policy)
        return fully_shard(model, mp_policy=policy)

    def whole(model: nn.Module) -> list[torch.Tensor]:
        return [
            p.full_tensor().detach() if isinstance(p, DTensor) else p.detach()
            for p in model.parameters()
        ]

    model = sharded(0)
    losses = _train(model, torch.optim.AdamW(model.parameters(), lr=0.01), clip=True)
    dcp.save({"model": model.state_dict()}, checkpoint_id=str(folder / "checkpoint"))
    other = sharded(5)
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=str(folder / "checkpoint"))
    other.load_state_dict(state["model"])
    assert all(torch.equal(a, b) for a, b in zip(whole(model), whole(other), strict=True))
    return losses + whole(model)


def fsdp2_in_memory_of_the_group(_: Path) -> list[torch.Tensor]:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 65), nn.ReLU(), nn.Linear(65, 4))
    for layer in (model[0], model[2]):
        fully_shard(layer)
    sharded = fully_shard(model)
    sharded.set_allocate_memory_from_process_group_for_comm(True)
    return _train(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1))


def checkpoint_behind_the_training(folder: Path) -> list[torch.Tensor]:
    """Saved while it goes on, in a group of its own; then from one rank to all that have shards."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict as states
    from torch.distributed.fsdp import fully_shard

    model = _model()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = states.get_model_state_dict(model)
    saved = dcp.async_save(
        before, checkpoint_id=str(folder / "one"), process_group=dist.new_group()
    )
    losses = _train(model, optimizer)
    saved.result()
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    trained = states.get_model_state_dict(model, options=options)
    dcp.load(before, checkpoint_id=str(folder / "one"))
    states.set_model_state_dict(model, before)
    first = states.get_model_state_dict(model, options=options)
    assert not dist.get_rank() or not trained  # the others have none of it
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    states.set_model_state_dict(model, trained, options=options)
    again = states.get_model_state_dict(
        model, options=states.StateDictOptions(full_state_dict=True)
    )
    return [*losses, *first.values(), *again.values()]


def dtensor(_: Path) -> list[torch.Tensor]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tensor"))["tensor"]
    left = distribute_tensor(torch.arange(20.0).reshape(4, 5), mesh, [Shard(1)])
    right = distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [Shard(0)])
    product = left @ right
    moved = left.redistribute(mesh, [Shard(0)])
    return [
        product.full_tensor(),
        product.redistribute(mesh, [Shard(0)]).to_local(),
        moved.to_local(),
        moved.redistribute(mesh, [Replicate()]).to_local(),
    ]


def tensor_parallel(_: Path) -> list[torch.Tensor]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    output = model(torch.ones(3, 8))
    output.sum().backward()
    return [output.detach(), model[0].weight.grad.full_tensor()]


def functional_collectives(_: Path) -> list[torch.Tensor]:
    import torch.distributed._functional_collectives as funcol

    group = dist.group.WORLD
    rank = dist.get_rank()
    tensor = torch.arange(8.0).reshape(4, 2) + rank
    # Rank 0 keeps one row and sends three; rank 1 sends two and keeps two.
    sent, received = ([1, 3], [1, 2]) if rank == 0 else ([2, 2], [3, 2])
    results = [
        funcol.all_reduce(tensor, "sum", group),
        funcol.all_gather_tensor(tensor, 0, group),
        funcol.all_gather_tensor(tensor, 1, group),
        funcol.reduce_scatter_tensor(tensor, "sum", 0, group),
        funcol.broadcast(tensor, 1, group),
        funcol.all_to_all_single(tensor, received, sent, group),
        *funcol.all_reduce_coalesced([tensor, tensor + 1], "sum", group),
        *funcol.all_gather_into_tensor_coalesced([tensor, tensor + 1], group),
        *funcol.reduce_scatter_tensor_coalesced([tensor, tensor + 1], "sum", [0, 0], group),
    ]
    return [funcol.wait_tensor(result) for result in results]


def compiled(_: Path) -> list[torch.Tensor]:
    import torch.distributed._functional_collectives as funcol

    def function(tensor: torch.Tensor) -> torch.Tensor:
        total = funcol.all_reduce(tensor * 2, "sum", dist.group.WORLD)
        dist.all_reduce(tensor)
        return total + tensor + funcol.all_gather_tensor(tensor, 0, dist.group.WORLD).sum()

    graph = torch.compile(function, backend="aot_eager", fullgraph=True)
    model = torch.compile(nn.parallel.DistributedDataParallel(_model()[0]), backend="aot_eager")
    losses = _train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return [graph(torch.arange(6.0) + dist.get_rank()), *losses]


SCRIPTS: dict[str, Callable[[Path], list[torch.Tensor]]] = {
    script.__name__: script
    for script in (
        ddp,
        ddp_static_graph_bucket_views,
        ddp_unused_parameters,
        ddp_in_the_arena,
        ddp_hooks,
        ddp_join_uneven,
        zero_redundancy_optimizer,
        fsdp2,
        fsdp2_in_memory_of_the_group,
        checkpoint_behind_the_training,
        dtensor,
        tensor_parallel,
        functional_collectives,
        compiled,
    )
}
