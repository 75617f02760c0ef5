"""A process group that is a Python class: what torch asks of one besides its calls."""

from steptime.world import compat


class PythonGroup(compat.ProcessGroup):
    """A group of the backend ``backend``, known by the name and description that torch gives it.

    Torch asks a group that C++ makes for these through its backends, and this one has none. The
    collectives and messages are those of the class that inherits it.
    """

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, backend: str, rank: int, ranks: int, store: compat.Store) -> None:
        """Rank ``rank`` of ``ranks``, which found each other through ``store``."""
        # The constructor that takes a store makes no group of a Python class.
        super().__init__(rank, ranks)  # type: ignore[call-arg]
        self._backend_name, self._store = backend, store
        self._name = self._description = ""

    def getBackendName(self) -> str:  # noqa: N802
        """The name by which init_process_group knows its backend."""
        return self._backend_name

    name = getBackendName

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Set the group's name; torch calls this."""
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        """The name that torch gave the group."""
        return self._name

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Set the group's description; torch calls this."""
        self._description = description

    def getGroupDesc(self) -> str:  # noqa: N802
        """The description that torch gave the group."""
        return self._description

    def get_group_store(self) -> compat.Store:
        """The store through which the ranks of the group found each other."""
        return self._store
