"""Pickles of plain values: numbers, text, lists, tuples and dictionaries, and nothing else."""

import io
import pickle
from typing import Any, NoReturn


class _Plain(pickle.Unpickler):
    """An unpickler that knows no class and no function, so that no pickle can call one."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse: a plain value needs none."""
        raise ValueError(f"it asks for {module}.{name}, and only plain values are read")

    def persistent_load(self, pid: Any) -> NoReturn:
        """Refuse, as ``find_class`` does."""
        raise ValueError(f"it refers to {pid!r} outside of it")


def unpickled(content: bytes) -> Any:
    """The plain value that a pickle holds; raises an error where it holds anything else."""
    return _Plain(io.BytesIO(content)).load()
