"""Context parallelism: attention of ranks that each hold two chunks of every row's tokens.

Grattafiori et al. (arXiv 2407.21783, section 3.3.2): keys and values are gathered, for heads that
share them they are small. Shapes: B rows, T tokens of a row, S of them on this rank, H heads of
queries and ``kv`` heads of keys of this rank, of width D.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from steptime.train.parallel.movements import gathered
from steptime.world.communicator import Communicator


def whole_row(k: Tensor, v: Tensor, comm: Communicator) -> tuple[Tensor, Tensor]:
    """Keys and values (B, kv, T, D) of all tokens in their order, from those of each rank's.

    ``k`` and ``v`` have shape (B, kv, S, D) and travel in one call, as do their gradients.
    """
    both = gathered(torch.cat((k, v), dim=1).transpose(1, 2), comm)  # (B, T, 2 kv, D)
    front, back = both.unflatten(1, (comm.ranks, 2, -1)).unbind(2)  # the chunks of each rank
    k, v = torch.cat((front, back.flip(1)), dim=1).flatten(1, 2).transpose(1, 2).chunk(2, dim=1)
    return k, v


def attend_to_row(q: Tensor, k: Tensor, v: Tensor, rank: int, ranks: int) -> Tensor:
    """Causal attention, (B, H, S, D), of this rank's two chunks of queries to their whole rows.

    ``q`` has shape (B, H, S, D), ``k`` and ``v`` (B, kv, T, D). No chunk meets the keys behind it,
    which would be half of the work.
    """
    shared, made = q.shape[1] != k.shape[1], []
    for queries, place in zip(q.chunk(2, dim=2), (rank, 2 * ranks - 1 - rank), strict=True):
        size = queries.shape[2]
        end = (place + 1) * size
        seen = torch.ones(size, end, dtype=torch.bool, device=q.device).tril(end - size)
        found = F.scaled_dot_product_attention(
            queries, k[:, :, :end], v[:, :, :end], attn_mask=seen, enable_gqa=shared
        )
        made.append(found)
    return torch.cat(made, dim=2)
