"""``steptime.run`` from the kernel of a notebook, which a user interrupts."""

import json
import os
import subprocess
import sys
from pathlib import Path

CELLS = [
    "import os, time, steptime as st\nclass Mine(int): pass",
    'def own(): return Mine(os.environ["RANK"])\nst.run(own, ranks=2, backend="none")',
    'st.run(lambda: (open("ready", "w").close(), time.sleep(600)), ranks=2, backend="none")',
    'open(f"/proc/self/task/{os.getpid()}/children").read()',
]
# In a process of its own, for jupyter_client leaves event loops behind.
CLIENT = """
import json, os, sys, threading, time
from jupyter_client.manager import KernelManager

manager = KernelManager(kernel_name="python3")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=500)
answers = []

def interrupt():
    while not os.path.exists("ready"):
        time.sleep(0.05)
    manager.interrupt_kernel()

for code in json.loads(sys.argv[1]):
    told = []

    def hook(message):
        content = message["content"]
        told.append(content.get("ename") or content.get("data", {}).get("text/plain") or "")

    if "sleep" in code:
        threading.Thread(target=interrupt).start()
    client.execute_interactive(code, timeout=500, output_hook=hook)
    answers.append("".join(told))
print(json.dumps(answers))
client.stop_channels()
manager.shutdown_kernel(now=True)
"""


def test_a_function_of_a_notebook_runs_and_an_interrupt_stops_its_ranks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, json.dumps(CELLS)],
        capture_output=True,
        text=True,
        timeout=1100,
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path)},
    )
    assert json.loads(done.stdout) == ["", "(0, 1)", "KeyboardInterrupt", "''"], done.stderr
