from pathlib import Path

import numpy as np
import pytest
import torch

from steptime.train.config import gpt2
from steptime.train.llmc import write_checkpoint
from steptime.train.model import Decoder
from steptime.train.shards import write_token_shard

WORDS = "the ranks of a ring send each chunk to the next and wait for the gradient of the last"


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 25 kB of text."""
    words = np.random.default_rng(0).choice(WORDS.split(), 6000)
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(" ".join(words))
    return path


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one shard of GPT-2 tokens."""
    folder = tmp_path_factory.mktemp("shards")
    tokens = np.random.default_rng(0).integers(0, 50257, 5000)
    write_token_shard(folder / "train.bin", tokens.astype(np.uint16))
    return folder


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An llm.c checkpoint of the tiny model, for bytes."""
    config = gpt2(layers=1, heads=2, hidden=32, context=32, vocabulary=256)
    path = tmp_path_factory.mktemp("weights") / "tiny.bin"
    write_checkpoint(path, Decoder(config, torch.Generator().manual_seed(7)), "fp32")
    return path
