"""Scripts run on real ranks under the observers of check, and what the judges say of them."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from cli.command import Ended
from forked import forked_python
from recorded_scripts import START
from steptime.check.finding import Finding
from steptime.check.job import Job
from steptime.check.judging import judged
from steptime.record.read import read_logs
from steptime.record.start import OBSERVERS_VARIABLE, recording_environment


def findings_of(
    folder: Path, body: str, ranks: int = 2, start: Callable[..., Ended] = forked_python
) -> list[Finding]:
    """What all judges find in a script that goes on after START and ends well."""
    file = folder / "script.py"
    file.write_text(START + body)
    environ = recording_environment(os.environ, folder)
    environ[OBSERVERS_VARIABLE] = "steptime.check.observe"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = start(*torchrun, str(file), folder=folder, environ=environ)
    assert done.code == 0, done.err
    return judged(Job(logs=read_logs(folder), now_ns=time.time_ns()))


def findings_at_last(
    folder: Path, body: str, wanted: Callable[[list[Finding]], bool], ranks: int = 2
) -> list[Finding]:
    """The same of the first of three runs in which they are as ``wanted``, else of the third.

    For what is told of times: where others have the cores, ranks wait for these.
    """
    for attempt in range(3):
        own = folder / str(attempt)
        own.mkdir()
        if wanted(found := findings_of(own, body, ranks)):
            break
    return found


def marked(finding: Finding) -> set[str]:
    """The comments that end the lines which a finding names."""
    lines = {
        (place.file, place.line): Path(place.file).read_text().splitlines()[place.line - 1]
        for place in finding.places
    }
    return {line.partition("# ")[2] for line in lines.values()}
