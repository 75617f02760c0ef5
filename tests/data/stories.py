"""Sources for tests: stories that are the same on every machine, and folders compared by bytes."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

TALE = "once upon a time there was a ring of ranks, and each sent its chunk to the next one"
WORDS = TALE.split()


def stories(count: int, seed: int = 0) -> list[str]:
    """So many stories of some 300 characters."""
    numbers = np.random.default_rng(seed).integers(0, len(WORDS), (count, 60))
    return [" ".join(WORDS[i] for i in row) + "." for row in numbers]


def write_every_kind(folder: Path, texts: list[str]) -> None:
    """The stories in every format that can be read, some in each."""
    folder.mkdir()
    kinds = 6
    parts = [texts[i * len(texts) // kinds :][: len(texts) // kinds] for i in range(kinds)]
    lines = [
        "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(part))
        for part in parts
    ]
    (folder / "a.txt").write_text("\n<|endoftext|>\n".join(parts[0]))
    (folder / "b.txt.gz").write_bytes(gzip.compress("\n<|endoftext|>\n".join(parts[1]).encode()))
    (folder / "c.jsonl").write_text(lines[2])
    (folder / "d.jsonl.gz").write_bytes(gzip.compress(lines[3].encode()))
    with pyarrow.CompressedOutputStream(str(folder / "e.jsonl.zst"), "zstd") as file:
        file.write(lines[4].encode())
    table = pyarrow.table({"id": list(range(len(parts[5]))), "text": parts[5]})
    parquet.write_table(table, folder / "f.parquet", row_group_size=37)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too, by its name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
