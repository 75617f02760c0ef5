"""A family of models is one file that the package leads to."""

import json
import subprocess
import sys

import pytest

TOY = '''
"""A toy: GPT-2's blocks, and few of them."""

from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Transformer

_toy = partial(Transformer, layers=2, hidden=64, heads=4, context=32, vocabulary=500)

FAMILY = Family(models={"toy-small": partial(_toy, name="toy-small")}, also={"toy": "toy-small"})
'''
SCRIPT = """
import sys
import steptime.workloads.models.families
steptime.workloads.models.families.__path__.append("foreign")
from steptime.cli import main
sys.exit(main())
"""


@pytest.mark.slow
def test_a_file_that_the_package_leads_to_is_listed_and_simulated(tmp_path):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "toy.py").write_text(TOY)
    (tmp_path / "there.py").write_text(SCRIPT)

    def here(*words):
        ended = subprocess.run(
            [sys.executable, "there.py", *words, "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert '"toy-small"' in here("proxy", "list")
    words = ("--cluster", "laptop", "--ranks", "2", "--strategy", "overlapped", "--out", "run")
    run = json.loads(here("simulate", "toy", *words))
    assert run["model_config"]["layers"] == 2
    assert run["strategies"]["overlapped"]["step_time_s"]["median"] > 0
