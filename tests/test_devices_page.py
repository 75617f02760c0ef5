"""docs/devices.md is current, and what the files of devices call fitted is what a fit gives."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from steptime.cluster import device_named, device_names

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import kernel_tables  # noqa: E402  # it lies beside the package


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The script that makes the page."""
    found = importlib.util.spec_from_file_location("make_devices", ROOT / "docs/make_devices.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_is_what_files_and_figures_say(made: ModuleType) -> None:
    page = (ROOT / "docs" / "devices.md").read_text()
    assert page == made.page(), "run python docs/make_devices.py"


@pytest.mark.parametrize("name", device_names())
def test_fitted_parameters_are_what_the_figures_give(name: str) -> None:
    kernels = device_named(name).kernels
    assert kernels is not None
    for key, value in kernel_tables.fitted(name).items():
        shipped = kernel_tables.parameter(kernels, key)
        assert shipped == pytest.approx(value, rel=0.05), f"{key}: run kernel_tables.py --fit"


def test_every_group_that_judges_or_was_fitted_to_is_within_its_bar() -> None:
    bars = {"fit": 0.1, "judge": 0.17}
    for one in kernel_tables.errors(kernel_tables.figures()):
        if one.use != "apart":
            assert one.mean < bars[one.use], f"{one.device} {one.group}: {one.mean:.1%}"


def test_a_figure_that_is_kept_apart_says_why() -> None:
    for one in kernel_tables.figures():
        assert one.use in ("fit", "judge", "apart")
        assert one.source
        assert one.note or one.use != "apart"
