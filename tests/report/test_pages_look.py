"""Every kind of page on a screen and on a telephone, light and dark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report.every_page import PAGES
from report.looking import MOST_BYTES, judge

pytestmark = pytest.mark.slow

pytest.importorskip("playwright.sync_api", reason="pip install playwright")


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a kind, made once."""
    made: dict[str, Path] = {}

    def find(kind: str) -> Path:
        if kind not in made:
            path = tmp_path_factory.mktemp(kind) / "report.html"
            PAGES[kind](path)
            made[kind] = path
        return made[kind]

    return find


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_clipped_overprinted_pale_or_heavy(
    page_of: Callable[[str], Path], open_html: Callable[..., Any], kind: str, scheme: str
) -> None:
    path = page_of(kind)
    assert path.stat().st_size <= MOST_BYTES
    assert judge(open_html, path, dark=scheme == "dark") == []
