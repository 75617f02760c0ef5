from collections.abc import Sequence
from typing import Any

# The release of torch for which it was built, as "2.13.0".
torch: str

# Record the calls of operators, with what stands of each in c10d.py, until ``uninstall``. ``calls``
# is a Calls, ``functions`` the capsule of _recorder.
def install(*, calls: object, functions: object, operations: Sequence[dict[str, Any]]) -> None: ...
def forget() -> None: ...
def uninstall() -> None: ...
