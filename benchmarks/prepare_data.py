"""How fast text becomes tokens, in how much memory, and what loading them costs a training step.

    python benchmarks/prepare_data.py [--megabytes 256] [--no-steps]

Makes story-like text, prepares it with a trained byte-pair encoding of 4096 tokens, and encodes
some of it again as one thread of plain Python does it, document by document. Then trains steps of
gpt2-nano and of the 124M model on the tokens and prints which part of a step waits for its batch.
Other processes slow all of it down: the load is printed beside.
"""

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np

from steptime.data.options import PrepareOptions
from steptime.data.prepare import prepare
from steptime.train.prepared import open_prepared, prepared_tokenizer

GOAL = 3e6  # tokens a second on 2 cores
SHARE = 0.01  # of a step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256, help="of text")
    parser.add_argument("--no-steps", action="store_true", help="leave the training steps out")
    asked = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.machine()}, {cores} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "stories.txt")
        write_stories(text, asked.megabytes * 1_000_000)
        print(f"{text.stat().st_size / 1e6:.0f} MB of text")
        tokenise(text, Path(folder, "tokens"))
        if not asked.no_steps:
            for size, batch, steps in (("nano", 32, 6), ("124M", 1, 3)):
                share_of_step(Path(folder, "tokens"), size, batch, steps)


def write_stories(path: Path, size: int) -> None:
    """Stories of words by Zipf's law, the rarer the longer, from letters as often as in English."""
    numbers = np.random.default_rng(0)
    letters = list("eeeeeetttttaaaaoooiiinnnssshhhrrrddllcuummwfgypbvk")
    lengths = [2 + int(np.log(1 + rank) / 1.3) for rank in range(6000)]
    words = ["".join(numbers.choice(letters, length)) for length in lengths]
    with path.open("w") as file:
        while file.tell() < size:
            chosen = np.minimum(numbers.zipf(1.15, (1000, 180)), len(words)) - 1
            for row in chosen:
                lines = (" ".join(words[i] for i in row[at : at + 12]) for at in range(0, 180, 12))
                file.write(". ".join(lines) + ".\n<|endoftext|>\n")


def tokenise(text: Path, out: Path) -> None:
    spent: list[float] = []
    options = PrepareOptions(shard_tokens=20_000_000)
    prepared = prepare([text], out, options, lambda _: spent.append(time.process_time()))
    now, busy = prepared.progress, spent[-1] - spent[0]
    per_token = text.stat().st_size / now.new_tokens
    print(f"{prepared}\n{per_token:.2f} bytes a token; peak memory {peak_bytes() / 1e6:.0f} MB")
    print(
        f"{busy:.1f} s of cores for {now.seconds:.1f} s: {now.new_tokens / busy / 1e6:.2f} million "
        "tokens a second and core"
    )
    print(f"{now.tokens_per_s / GOAL:.2f} of the goal of {GOAL / 1e6:.0f} million tokens a second")
    encode = prepared_tokenizer(out, prepared.index).encode
    with text.open() as file:
        documents = file.read(1 << 24).split("\n<|endoftext|>\n")
    start = time.perf_counter()
    count = sum(len(encode(document).tolist()) for document in documents)
    alone = count / (time.perf_counter() - start)
    print(f"{now.tokens_per_s / alone:.2f} times as fast as one thread, {alone / 1e6:.2f} million")


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def share_of_step(folder: Path, size: str, batch: int, steps: int) -> None:
    import torch

    from steptime.train.config import gpt2_of_size
    from steptime.train.data import Batches
    from steptime.train.options import ModelOptions
    from steptime.train.tokens import Tokens
    from steptime.train.training import new_model

    index, tokens = open_prepared(folder)
    kinds = Tokens(tokens["train"], tokens["validation"], index.vocabulary, str(folder))
    config = ModelOptions(model=size).config(index.vocabulary)
    model = new_model(config, 0, torch.device("cpu"))
    batches = Batches(kinds, config.context, batch, 0, 1, seed=0)
    waits, times = [], []
    for step in range(steps):
        start = time.perf_counter()
        inputs, targets = (torch.from_numpy(rows) for rows in batches.at(step))
        waits.append(time.perf_counter() - start)
        model(inputs, targets).backward()
        times.append(time.perf_counter() - start)
    wait, whole = np.median(waits[1:]), np.median(times[1:])
    print(
        f"{gpt2_of_size(size).name}: {1e6 * wait:.0f} µs of a step of {1e3 * whole:.0f} ms, "
        f"{wait / whole:.3%}: {wait / whole / SHARE:.2f} of the {SHARE:.0%} that is allowed"
    )


if __name__ == "__main__":
    main()
