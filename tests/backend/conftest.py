"""Both ways of the backend: in C, where that was built, and in Python."""

from collections.abc import Iterator

import pytest

from steptime.backend.host import kernel

KERNELS = [
    pytest.param("c", marks=pytest.mark.skipif(not kernel.is_built(), reason="no C was built")),
    # Where C serves, it is what users meet; that Python does the same test_parity_of_kernels tells.
    pytest.param("python", marks=[pytest.mark.slow] if kernel.is_built() else []),
]


@pytest.fixture(scope="module", params=KERNELS)
def each_kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """The tests of a module once with each; ranks inherit the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernel.VARIABLE, request.param)
        yield request.param
