"""Points that are kept: a file each, named by what the point is, whole or not there."""

import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_bytes, write_atomic

_FIRST = b"steptime point 1 "
_MOST_BYTES = 1 << 32


@dataclass(frozen=True)
class Cache:
    """The folder of some points, made where it is missing.

    What it holds may be read back by pickle, so it must be of this user alone. Raises UsageError
    where it cannot be made, or other users may write to it.
    """

    folder: Path

    def __post_init__(self) -> None:
        try:
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            about = self.folder.stat()
        except OSError as error:
            raise UsageError(
                f"cannot keep points in {self.folder}: {error.strerror}; name another folder"
            ) from None
        if about.st_uid != os.geteuid() or about.st_mode & stat.S_IWOTH:
            raise UsageError(
                f"other users may write to {self.folder}, and what it keeps is trusted: name a "
                "folder of your own"
            )

    def get(self, key: str) -> bytes | None:
        """What is kept of a point; None where that is nothing, or is damaged."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            content = bounded_bytes(path, "point of a sweep", _MOST_BYTES)
        except UsageError:
            return None
        head, payload = content[: len(_head(b""))], content[len(_head(b"")) :]
        return payload if head == _head(payload) else None

    def put(self, key: str, payload: bytes) -> None:
        """Keep a point, in place of what was kept of it; raises OSError where that cannot be."""
        write_atomic(self._path(key), _head(payload) + payload)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.point"


def _head(payload: bytes) -> bytes:
    """The line that a file begins with: it tells a file that is not whole."""
    return _FIRST + sha256(payload).hexdigest().encode() + b"\n"
