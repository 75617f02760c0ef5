"""A run answers the questions that were asked before it, and none that is yet to come."""

from pathlib import Path

from steptime.learn.session import open_session
from steptime.learn.source import read_lesson

SOURCE = """# Rings

```lesson
question = "How many bytes?"
minutes = 1
```

```ask before
ask = "How many does a rank send?"
answer = "ring.algorithms[0].bytes_sent_per_rank[0]"
because = "As a ring does."
```

```run ring
steptime show ring --ranks 4 --bytes 1MB
```

```ask after
ask = "And how many do all of them?"
answer = "ring.algorithms[0].bytes_sent_per_rank | sum"
because = "Four times that."
```
"""


def test_that_a_run_tells_no_answer_to_a_question_that_stands_after_it(tmp_path: Path) -> None:
    """It is judged when it is asked, by the run that there was."""
    source = tmp_path / "01-rings.md"
    source.write_text(SOURCE, encoding="utf-8")
    session = open_session(read_lesson(source), tmp_path / "learn")
    _, found = session.perform(next(session.lesson.commands()), captured=True)
    assert [one.text for one in found] == ["1.5e+06. As a ring does."]
    _, after = session.lesson.questions()
    asked = session.settle(after)
    assert asked is not None
    assert asked.text == "6e+06. Four times that."
