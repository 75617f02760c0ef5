"""Scripts that train run on the backend steptime as they are, and give what gloo gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend.frameworks import SCRIPTS
from ranks import on_ranks

pytestmark = pytest.mark.slow

Answers = list[dict[str, Any]]


@pytest.fixture(scope="module")
def gloo(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("gloo")
    return on_ranks(2, _run_all, folder, folder, backend="gloo")


@pytest.fixture(scope="module")
def steptime(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("steptime")
    return on_ranks(2, _run_all, folder, folder, backend="cpu:steptime,cuda:nccl")


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_gives_the_same_bits_as_on_gloo(
    gloo: Answers, steptime: Answers, script: str
) -> None:
    for rank in range(2):
        ours, theirs = steptime[rank][script], gloo[rank][script]
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs, strict=True):
            assert np.array_equal(one, other), (rank, one, other)


def _run_all(folder: Path) -> dict[str, Any]:
    """What every script returns. One that fails fails the rank: the other would wait for it."""
    import warnings

    warnings.simplefilter("ignore")  # torch deprecates what its own wrappers call
    answers: dict[str, Any] = {}
    for name, script in SCRIPTS.items():
        here = folder / name
        here.mkdir(exist_ok=True)
        answers[name] = [t.detach().double().numpy() for t in script(here)]
    return answers
