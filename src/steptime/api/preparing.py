"""``steptime.prepare``: text made into shards of tokens to train on."""

from collections.abc import Sequence
from pathlib import Path

from steptime.data.options import PrepareOptions
from steptime.data.prepare import Prepared
from steptime.data.prepare import prepare as prepared
from steptime.train.options import TokenizerName


def prepare(
    sources: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    tokenizer: TokenizerName = "bpe",
    vocabulary: int | None = None,
    field: str = "text",
    shard_tokens: int = 100_000_000,
    validation: float = 0.05,
    jobs: int | None = None,
) -> Prepared:
    """Make shards of tokens and their index in the folder ``out``, which ``--data`` takes.

    ``sources``: files of text, JSON Lines or Parquet, packed ones too, or folders of such.
    ``field``: of JSON Lines and Parquet; ``vocabulary``: tokens of a bpe, by default 4096;
    ``shard_tokens``: the most of a shard; ``validation``: the part that is held out; ``jobs``:
    threads, by default one a core. What was stopped goes on; the bytes are the same.

    Raises UsageError where a source cannot be read or ``out`` holds something else, SteptimeError
    where that cannot be written to.

    >>> from pathlib import Path
    >>> Path("story.txt").write_text("Once upon a time. " * 100)
    1800
    >>> st.prepare("story.txt", out="tokens", tokenizer="byte").train_tokens
    1711
    """
    named = [sources] if isinstance(sources, str | Path) else sources
    options = PrepareOptions(
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        field=field,
        shard_tokens=shard_tokens,
        validation=validation,
        jobs=jobs,
    )
    return prepared([Path(one) for one in named], Path(out), options)
