"""Latency and bandwidth fitted to measured times: t = alpha + S / bandwidth (Hockney 1994)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fit:
    """A fitted line; ``residual`` is the root mean square of its relative errors."""

    alpha_s: float
    beta_s: float
    """Seconds per byte."""

    residual: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second; infinite where the size makes no difference."""
        return 1 / self.beta_s if self.beta_s else float("inf")


def fit(sizes: Sequence[int], seconds: Sequence[float]) -> Fit | None:
    """The line that fits the times of ``sizes`` bytes best, or None for fewer than two sizes.

    Least squares of the relative errors, so that a time of microseconds counts as much as one of
    seconds; neither part may be negative.
    """
    if len(set(sizes)) < 2 or min(seconds) <= 0:
        return None
    measured = np.array(seconds)
    columns = np.stack([np.ones(len(sizes)), np.array(sizes, float)], axis=1) / measured[:, None]
    candidates = [_solve(columns, kept) for kept in ([0, 1], [0], [1])]
    possible = [c for c in candidates if (c >= 0).all()]
    best = min(possible, key=lambda c: float(np.square(columns @ c - 1).sum()))
    residual = float(np.sqrt(np.square(columns @ best - 1).mean()))
    return Fit(float(best[0]), float(best[1]), residual)


def _solve(columns: np.ndarray, kept: list[int]) -> np.ndarray:
    """The coefficients where those not ``kept`` are zero."""
    solution = np.zeros(2)
    # Scaled, since seconds and seconds a byte are ten powers of ten apart.
    scale = np.abs(columns[:, kept]).max(axis=0)
    target = np.ones(len(columns))
    solution[kept] = np.linalg.lstsq(columns[:, kept] / scale, target, rcond=None)[0] / scale
    return solution
