"""Functions and results on their way between processes, and in words why one cannot go."""

import io
import pickle
import sys
from importlib import import_module
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

from steptime.errors import UsageError


def packed(value: object, what: str, mend: str) -> bytes:
    """``value`` as bytes that another process makes it of again, functions of ``__main__`` too.

    Tensors travel by value and only those of the CPU. Raises UsageError where a part of it cannot
    travel: ``what`` is the subject of its sentence, and ``mend`` says what to do instead.
    """
    file = io.BytesIO()
    try:
        _Pickler(file).dump(value)
    except _OnDeviceError as error:
        raise UsageError(
            f"{what} a tensor of {error}, which stays in its process: make it one of the CPU by "
            ".cpu() first"
        ) from None
    except Exception as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{what} what no other process can have ({why}): {mend}") from None
    return file.getvalue()


def unpacked(content: bytes) -> Any:
    """The value again that ``packed`` made bytes of, in a process of our own."""
    return pickle.loads(content)  # noqa: S301


class _OnDeviceError(Exception):
    """A tensor is not in the memory of the host."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's, but for tensors not on the CPU, files of code, and modules such as steptime.

    From 3.1.3 on cloudpickle leaves out in which file a function was written, and a traceback has
    no lines without it.
    """

    def reducer_override(self, obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(obj, torch.Tensor) and obj.device.type != "cpu":
            raise _OnDeviceError(obj.device)
        if isinstance(obj, ModuleType) and sys.modules.get(obj.__name__) is obj:
            # cloudpickle knows no module of a class of its own
            return import_module, (obj.__name__,)
        if isinstance(obj, CodeType):
            _, parts = self.dispatch_table[CodeType](obj)
            return _code_of_file, (obj.co_filename, *parts)
        return super().reducer_override(obj)


def _code_of_file(file: str, *parts: Any) -> CodeType:
    return CodeType(*parts).replace(co_filename=file)
