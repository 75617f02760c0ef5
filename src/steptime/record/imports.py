"""What is done once a script has imported a module, however that comes about."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def once_imported(name: str, watch: Callable[[], Callable[[], None]]) -> Callable[[], None]:
    """Call ``watch`` once a module is imported, now if it is; the result ends what that began."""
    ends: list[Callable[[], None]] = []
    waiting = AfterImport(name, lambda: ends.append(watch()))
    if name in sys.modules:
        ends.append(watch())
    else:
        sys.meta_path.insert(0, waiting)

    def end() -> None:
        if waiting in sys.meta_path:
            sys.meta_path.remove(waiting)
        for one in ends:
            one()

    return end


class AfterImport(MetaPathFinder):
    """Calls a function once the module ``name`` has been imported: one of ``sys.meta_path``."""

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self.name = name
        self._function = function

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the module that others find, with a loader that calls back at its end."""
        del path, target
        if name != self.name or self not in sys.meta_path:
            return None
        # Whoever asks may only want to know whether there is such a module, and import it later.
        at = sys.meta_path.index(self)
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(at, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        sys.meta_path.remove(self)
        self._function()


class _Then(Loader):
    """A loader that calls a function when its module is loaded."""

    def __init__(self, loader: Any, function: Callable[[], None]) -> None:
        self._loader = loader
        self._function = function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """What the loader itself makes."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Load the module, then call the function."""
        assert module.__spec__ is not None  # noqa: S101
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._function()
