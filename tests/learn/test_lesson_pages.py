"""The pages of the lessons say what the lessons say."""

import sys
from pathlib import Path

import pytest

from steptime.learn.lesson import Lesson
from steptime.learn.source import all_lessons

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import make_lessons  # noqa: E402  # it lies beside the pages


@pytest.mark.parametrize("lesson", all_lessons(), ids=lambda one: one.title)
def test_a_page_has_all_that_its_lesson_says_in_order(lesson: Lesson) -> None:
    rest = make_lessons.page_of(lesson).read_text(encoding="utf-8")
    for part in lesson.parts:
        _, found, rest = rest.partition(make_lessons.told(part))
        assert found, f"not in the page, or not here: {make_lessons.told(part)!r}"


def test_every_page_is_of_a_lesson_that_there_is() -> None:
    pages = {make_lessons.page_of(lesson).name for lesson in all_lessons()}
    assert pages == {path.name for path in make_lessons.PAGES.glob("*.md")}
