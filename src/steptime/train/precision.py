"""Mixed precision: what is computed in which dtype, and the loss scaling that fp16 needs.

Micikevicius et al., "Mixed Precision Training" (arXiv 1710.03740): compute in half precision, keep
the weights that the optimizer updates and its state in fp32. bf16 has the range of fp32 and needs
no scaling; fp16 has not.
"""

from dataclasses import dataclass
from typing import get_args

import torch

from steptime.dtypes import BY_SHORT_NAME
from steptime.workloads.precision import DtypeName

DTYPES: dict[DtypeName, torch.dtype] = {
    name: getattr(torch, BY_SHORT_NAME[name].name) for name in get_args(DtypeName)
}


@dataclass(frozen=True)
class Precision:
    """Dtypes: ``compute`` of weights and activations, ``reduce`` of communicated gradients."""

    name: DtypeName
    compute: torch.dtype
    reduce: torch.dtype

    @property
    def scaled(self) -> bool:
        """Whether loss scaling is needed, since small gradients would vanish."""
        return torch.float16 in (self.compute, self.reduce)


def precision_of(name: DtypeName, reduce: DtypeName) -> Precision:
    """The precision with compute dtype ``name`` whose gradients are communicated in ``reduce``."""
    return Precision(name, DTYPES[name], DTYPES[reduce])


@dataclass(frozen=True)
class LossScale:
    """The factor on the loss that lifts fp16 gradients into range.

    Halves when a step overflows, which is then skipped; doubles after ``patience`` good steps.
    """

    scale: float = 65536.0
    good_steps: int = 0
    patience: int = 200

    def after(self, overflowed: bool) -> "LossScale":
        """The scale for the next step."""
        if overflowed:
            return LossScale(max(self.scale / 2, 1.0), 0, self.patience)
        if self.good_steps + 1 == self.patience:
            return LossScale(self.scale * 2, 0, self.patience)
        return LossScale(self.scale, self.good_steps + 1, self.patience)
