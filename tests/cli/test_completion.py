import subprocess
from pathlib import Path

import command

COMPLETE = """
source .local/share/bash-completion/completions/steptime
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p steptime | sed 's/.*-F \\([^ ]*\\).*/\\1/') steptime
echo "${{COMPREPLY[@]}}"
"""


def completed(words: str, home: Path) -> list[str]:
    script = COMPLETE.format(words=words)
    done = subprocess.run(
        ["bash", "-c", script], cwd=home, capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_installs_and_knows_verbs_and_their_options(tmp_path):
    where = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    ended = command.run("--install-completion", folder=tmp_path, environ=where)
    assert ended.code == 0, ended.err
    assert completed("steptime com", tmp_path) == ["compare"]
    assert completed("steptime simulate --clu", tmp_path) == ["--cluster"]
    assert completed("steptime proxy --scale-b", tmp_path) == ["--scale-bytes"]


def test_an_unknown_shell_is_asked_for(tmp_path):
    where = {"HOME": str(tmp_path), "SHELL": "/bin/tcsh", "PATH": ""}
    ended = command.run("--install-completion", folder=tmp_path, environ=where)
    assert ended.code == 1
    assert "--shell" in ended.err
    asked = command.run("--install-completion", "--shell", "bash", folder=tmp_path, environ=where)
    assert asked.code == 0, asked.err
