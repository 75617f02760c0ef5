"""Points of a sweep worked out by whoever there is, in order, and kept as they are done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from steptime.errors import SteptimeError, error_of
from steptime.pickles import packed, unpacked
from steptime.points.cache import Cache
from steptime.points.codec import Codec
from steptime.points.identity import digest, steptime_source

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Done(Generic[R]):
    """The result of a point, and whether it had been kept from before."""

    result: R
    kept: bool


def points(
    function: Callable[[P], R],
    specs: Sequence[P],
    codec: Codec[R],
    *,
    executor: Executor | None = None,
    cache: Cache | None = None,
    identities: Callable[[P], object] = lambda spec: spec,
    named: str = "",
) -> Iterator[Done[R]]:
    """The result of ``function`` for every specification, in their order.

    ``executor``: whoever works them out, any executor of ``concurrent.futures``; None: this
    process, each when it is asked for. ``cache`` keeps each as soon as it is done, by a hash of
    steptime's source, of ``named`` (or, where that is empty, the function) and of what
    ``identities`` says of its specification, which must name all that the result depends on.

    Raises what ``function`` raises; SteptimeError where a worker dies or a point cannot be kept.
    """
    keys = [_key(named or function, identities(spec)) for spec in specs] if cache else []
    ready: dict[int, Done[R]] = {}
    for number, key in enumerate(keys):
        kept = _kept(cache, key, codec)
        if kept is not None:
            ready[number] = kept
    missing = {n: spec for n, spec in enumerate(specs) if n not in ready}
    if executor is None:
        fresh: Iterator[tuple[int, R]] = ((n, function(spec)) for n, spec in missing.items())
    else:
        fresh = _elsewhere(function, missing, codec, executor)
    for number in range(len(specs)):
        while number not in ready:
            done, result = next(fresh)
            _keep(cache, keys[done] if cache else "", codec, result)
            ready[done] = Done(result, kept=False)
        yield ready.pop(number)


def _key(function: Callable[[P], R] | str, identity: object) -> str:
    return digest((steptime_source(), function, identity))


def _kept(cache: Cache | None, key: str, codec: Codec[R]) -> Done[R] | None:
    """What is kept of a point; None where there is nothing, or nothing that can be read."""
    content = cache.get(key) if cache else None
    if content is None:
        return None
    try:
        return Done(codec.decode(content), kept=True)
    except Exception:  # of another type, or made with what is not here: it is worked out again
        return None


def _keep(cache: Cache | None, key: str, codec: Codec[R], result: R) -> None:
    if cache is None:
        return
    try:
        cache.put(key, codec.encode(result))
    except OSError as error:
        raise SteptimeError(
            f"cannot keep a point in {cache.folder}: {error.strerror}; make room, or name another "
            "folder"
        ) from None


def _elsewhere(
    function: Callable[[P], R], specs: Mapping[int, P], codec: Codec[R], executor: Executor
) -> Iterator[tuple[int, R]]:
    """The results of all points as they come, with their numbers."""
    mend = "name functions and values that are defined at the top of a module"
    work = packed((function, codec), "the function of the sweep holds", mend)
    try:
        numbers = {
            executor.submit(_worked, work, packed(spec, "a point of the sweep holds", mend)): n
            for n, spec in specs.items()
        }
        for future in as_completed(numbers):
            content, error, exit_code = future.result()
            if error:
                raise error_of(error, exit_code)
            yield numbers[future], codec.decode(content)
    except BrokenExecutor:
        raise SteptimeError(
            "a process of the sweep died, perhaps for want of memory: let fewer work at a time"
        ) from None


def _worked(work: bytes, spec: bytes) -> tuple[bytes, str, int]:
    """The result of one point, in a worker; or the sentence of an error and its exit code."""
    function, codec = _of_sweep(work)
    try:
        return codec.encode(function(unpacked(spec))), "", 0
    except SteptimeError as error:
        return b"", str(error), error.exit_code


@lru_cache(maxsize=2)
def _of_sweep(work: bytes) -> Any:
    """The function of the sweep and its codec, which come with each point: made once."""
    return unpacked(work)
