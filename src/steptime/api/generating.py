"""``steptime.generate``: text from a model that was trained here, or from weights of elsewhere."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from steptime.train.sampling import SamplingOptions, drawn
from steptime.train.weights import weights_at


@dataclass(frozen=True, repr=False)
class Generated:
    """Text that a model wrote.

    ``text`` goes on from ``prompt``, and consists of ``tokens``. ``model``: its name; ``step``: the
    steps that it was trained for, where its weights are of a checkpoint; ``weights``: where they
    are. ``seconds`` were measured, from the first token of the prompt to the last of the text.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    model: str
    step: int | None
    weights: str
    seconds: float

    def __repr__(self) -> str:
        return self.prompt + self.text


def untold(piece: str) -> None:
    """Nobody hears the pieces of a text."""


def generate(
    run: str | Path,
    prompt: str = "",
    *,
    tokens: int = 200,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = untold,
) -> Generated:
    """Let a model go on from a prompt, at most so many ``tokens``, and see what it has learnt.

    ``run``: the folder of a training with checkpoints, of which the newest is taken; one of its
    checkpoints; an llm.c file; or Hugging Face's folder of a GPT-2 or a Llama. ``temperature``: 0
    takes the likeliest token, 1 draws as the model says; ``top_k`` and ``top_p`` draw from the
    likeliest alone. The same ``seed`` draws the same text. ``tell`` hears each piece as it comes.

    Raises UsageError where there are no such weights, nothing tells what their tokens mean, or the
    prompt is longer than what the model sees at once.

    >>> import subprocess, sys
    >>> train = "train --steps 2 --batch 4 --checkpoint-every 2 --quiet --out trained"
    >>> done = subprocess.run([sys.executable, "-m", "steptime", *train.split()], check=True)
    >>> len(st.generate("trained", "import ", tokens=5).tokens)
    5
    """
    how = SamplingOptions(
        tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    return generated(Path(run), prompt, how, tell)


def generated(
    path: Path, prompt: str, how: SamplingOptions, tell: Callable[[str], None]
) -> Generated:
    """The text of options that were checked; raises as ``generate``."""
    from steptime.train.generate import open_writer

    weights = weights_at(path)
    writer = open_writer(weights)
    before = writer.prompt(prompt)
    generator = np.random.Generator(np.random.PCG64(how.seed))
    found: list[int] = []
    parts: list[str] = []

    def kept() -> Iterator[int]:
        choose = partial(drawn, how=how, generator=generator)
        for token in islice(writer.tokens(before, choose), how.tokens):
            found.append(token)
            yield token

    start = time.perf_counter()
    for piece in writer.text.pieces(before, kept()):
        parts.append(piece)
        tell(piece)
    return Generated(
        prompt=prompt,
        text="".join(parts),
        tokens=tuple(found),
        model=writer.model.config.name,
        step=weights.checkpoint.step if weights.checkpoint else None,
        weights=str(weights.path),
        seconds=time.perf_counter() - start,
    )
