"""Original: a C++/MPI proxy whose step is rebuilt here, and the list of all of them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from steptime.discovery import modules_of
from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.program import Program

Generate = Callable[..., Program]


@dataclass(frozen=True, kw_only=True)
class Original:
    """A proxy of spcl/DNN-cpp-proxies (2022), as its function in this package rebuilds its step.

    ``warm_up`` and ``runs``: how many steps it runs unmeasured and measured. ``defects``: its
    errors, a sentence each; those of its step are in the program too.
    """

    name: str
    generate: Generate
    warm_up: int
    runs: int
    defects: tuple[str, ...]

    @property
    def doc(self) -> str:
        """The docstring of its function."""
        return inspect.getdoc(self.generate) or ""

    @property
    def takes(self) -> Mapping[str, int | None]:
        """Its parameters besides the number of ranks, with their defaults."""
        parameters = inspect.signature(self.generate).parameters.values()
        return {one.name: one.default for one in parameters if one.name != "ranks"}


def original(
    *, warm_up: int, runs: int, defects: tuple[str, ...]
) -> Callable[[Generate], Original]:
    """Decorate a function of ``ranks`` and other parameters as the Original of the same name."""

    def make(generate: Generate) -> Original:
        return Original(
            name=generate.__name__,
            generate=generate,
            warm_up=warm_up,
            runs=runs,
            defects=(*defects, *_OF_ALL),
        )

    return make


SLEEPS = "Computing is a blocking sleep: messages move on meanwhile only where the program polls."

_OF_ALL = (
    "Ranks neither start a measured loop together nor agree on its time: each takes its own.",
    "Buffers are zero and no received value is checked.",
    "One line of text is all it leaves: no times by phase, no spread over steps or ranks.",
)


def compat(name: str, ranks: int, **parameters: int) -> Program:
    """One step of the original proxy ``name`` on so many ranks, call by call, defects included.

    ``parameters``: those that its ``takes`` lists. Every element has 4 bytes. The axes of the
    program are those of the original's communicators.

    Raises UsageError where there is no such proxy or parameter, a value is not a whole number of at
    least 1, or the original would abort, write out of bounds or drop layers.
    """
    proxy = compat_named(name)
    unknown = [one for one in parameters if one not in proxy.takes]
    if unknown:
        known = f"it takes {', '.join(proxy.takes)}" if proxy.takes else "it takes the ranks alone"
        raise UsageError(f"{name} has no parameter {unknown[0]!r}: {known}")
    for what, value in {"ranks": ranks, **parameters}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(
                f"{what} of {name} is {value!r}: it must be a whole number, at least 1"
            )
    return proxy.generate(ranks=ranks, **parameters)


def compat_names() -> tuple[str, ...]:
    """The names of all originals."""
    return tuple(_originals())


def compat_named(name: str) -> Original:
    """The original of that name; raises UsageError, naming all there are, where there is none."""
    if name not in _originals():
        raise UsageError(
            f"there is no proxy {name!r} in dnn-cpp-proxies: {mend(name, compat_names())}"
        )
    return _originals()[name]


@cache
def _originals() -> Mapping[str, Original]:
    modules = modules_of("steptime.workloads.compat")
    every = [one for module in modules for one in vars(module).values()]
    found = {one.name: one for one in every if isinstance(one, Original)}
    return MappingProxyType(dict(sorted(found.items())))


def check_multiple(name: str, ranks: int, of: int) -> None:
    """Raise UsageError where ``ranks`` is no multiple of ``of``; it names the nearest multiples."""
    if ranks % of:
        below = ranks // of * of
        nearest = f"{below} and {below + of} are" if below else f"{of} is"
        raise UsageError(
            f"{name} runs on a multiple of {of} ranks, and {ranks} is none: the nearest {nearest}"
        )


def check_stages(name: str, stages: int) -> None:
    """Raise UsageError where there are fewer than two stages."""
    if stages < 2:
        raise UsageError(
            f"{name} needs at least 2 stages, not {stages}: alone, its first stage would send to "
            "a rank that does not exist"
        )
