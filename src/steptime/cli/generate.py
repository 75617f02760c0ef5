"""``generate``: What does a model write that was trained here?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json
from steptime.train.sampling import SamplingOptions

if TYPE_CHECKING:
    from steptime.api.generating import Generated


def generate(
    run: Annotated[Path, Parameter(name="RUN")],
    prompt: Annotated[str, Parameter(name="PROMPT")] = "",
    /,
    *,
    sampling: Flat[SamplingOptions] = SamplingOptions(),
    printed: Flat[PrintOptions] = PrintOptions(),
) -> None:
    """What does a model write that was trained here?

    It goes on from a prompt, and prints what it writes as it comes.

    Parameters
    ----------
    run
        The folder of a run of train --checkpoint-every, whose newest checkpoint is taken; a
        checkpoint; a file of llm.c's; or the folder of a GPT-2 or a Llama of Hugging Face's.
    prompt
        The text to go on from; default: none, as at the beginning of a text.

    """
    from steptime.cli.ranks import check_torch

    check_torch("generate", "gloo")
    from steptime.api.generating import generated

    if printed.json:
        found = generated(run, prompt, sampling, lambda _: None)
        say_json(_record(run, sampling, found))
        return
    begun: list[str] = []

    def tell(piece: str) -> None:
        if not begun:  # a prompt that is refused is not printed
            begun.append(prompt)
            say(_shown(prompt), end="")
        say(_shown(piece), end="")

    generated(run, prompt, sampling, tell)
    say("" if begun else _shown(prompt))


def _shown(text: str) -> str:
    """What a terminal can be given: a model may write bytes that command it."""
    return "".join(
        one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text
    )


def _record(run: Path, sampling: SamplingOptions, found: "Generated") -> dict[str, object]:
    return {
        "verb": "generate",
        "run": str(run),
        "weights": found.weights,
        "model": found.model,
        "step": found.step,
        "prompt": found.prompt,
        "text": found.text,
        "tokens": list(found.tokens),
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "source": "measured",
        "seconds": found.seconds,
        "tokens_per_s": len(found.tokens) / found.seconds,
    }
