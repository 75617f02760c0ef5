"""How text is made into tokens, as asked for; free of NumPy."""

from dataclasses import dataclass

from steptime.errors import UsageError
from steptime.limits import check_limits, check_within
from steptime.train.options import DataOptions, TokenizerName


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How sources become shards of tokens."""

    tokenizer: TokenizerName = "bpe"
    """bpe: byte-pair encoding learnt from the text; byte: one token a byte; gpt2: GPT-2's own."""

    vocabulary: int | None = None
    """Number of tokens of the bpe; default: 4096."""

    field: str = "text"
    """The field of JSON Lines, and the column of Parquet, that holds the text."""

    shard_tokens: int = 100_000_000
    """The most tokens of a shard, which is kept in memory until it is whole."""

    validation: float = 0.05
    """The part of all documents that is held out."""

    jobs: int | None = None
    """Threads that encode; default: one a core. The result does not depend on it."""

    def __post_init__(self) -> None:
        check_limits(self)
        check_within("--shard-tokens", self.shard_tokens, 1 << 10, 1 << 27)
        if self.jobs is not None:
            check_within("--jobs", self.jobs, 1, 1 << 10)
        if not 1e-6 <= self.validation <= 0.5:
            raise UsageError(
                f"--validation is {self.validation}: it is a part of all documents, as 0.05, from "
                "1e-6 to 0.5"
            )
        if self.vocabulary is not None and self.tokenizer != "bpe":
            raise UsageError(
                f"--vocabulary is that of a bpe, and {self.tokenizer} has its own: leave it out"
            )

    @property
    def held_out(self) -> int:
        """One in so many documents is held out."""
        return round(1 / self.validation)

    @property
    def tokens(self) -> DataOptions:
        """The tokenizer, as a training asks for it."""
        return DataOptions(tokenizer=self.tokenizer, vocabulary=self.vocabulary)
