"""Files written whole or not at all, so that a killed process leaves none that is damaged."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write in pieces, so that a killed run leaves the whole of it or nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a killed run leaves the whole of it or nothing."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as JSON, atomically."""
    write_atomic(path, (json.dumps(content, indent=1) + "\n").encode())
