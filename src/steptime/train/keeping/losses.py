"""Losses that no training should go on with."""

import math

_GUESSES = 3
"""How many times what guessing costs is no loss of a model that learns, nor of a new one.

Guessing among V tokens costs ln V nats a token. The bound needs no history, so a run that is
resumed judges as the one before.
"""


def problem_of(loss: float, step: int, vocabulary: int) -> str | None:
    """What is wrong with the mean loss of a step, as a sentence begins; None where nothing is."""
    if not math.isfinite(loss):
        return f"the loss is {loss} at step {step}"
    guess = math.log(vocabulary)
    if loss > _GUESSES * guess:
        return f"the loss is {loss:.4g} at step {step}, where guessing costs {guess:.4g}"
    return None
