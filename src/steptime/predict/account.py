"""Account: where the time of a predicted step goes, in terms that each have a name."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats

TERMS = {
    "products": "matrix products",
    "attention": "attention's scores and what they weigh",
    "memory-bound": "norms, activations, residuals, the loss: what memory bounds",
    "launches": "a device with nothing to do while the host launches its next kernel",
    "recompute": "forward computed again in backward",
    "contention": "what calls behind computing take from it",
    "tensor": "calls among tensor ranks that nothing hides",
    "context": "calls among context ranks that nothing hides",
    "expert": "calls among expert ranks that nothing hides",
    "data": "calls among data-parallel ranks that nothing hides",
    "pipeline": "messages between stages that nothing hides",
    "bubble": "stages with nothing to do",
    "optimizer": "the update of the parameters, and the norm of the gradient",
    "host": "what a step costs once, whatever it computes",
    "imbalance": "waiting for the slowest of many devices",
}
"""The terms of an account, and what each is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Account:
    """Seconds of a step by term, each of shape (layouts,), as its slowest rank spends them."""

    terms: Mapping[str, Floats]

    @property
    def step_s(self) -> Floats:
        """What the step takes: the sum of all, shape (layouts,)."""
        return np.asarray(sum(self.terms.values()), np.float64)
