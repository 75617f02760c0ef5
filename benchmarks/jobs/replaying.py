"""The step of a recorded run, replayed under the flight recorder of the library: RUN LEAVE."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from job import messages_of

from steptime.replay.backends import stand_in
from steptime.replay.device import Device
from steptime.replay.replay import RankReplay, replay
from steptime.replay.torch_transport import TorchReplayTransport
from steptime.study.replayed import message_dtype, program_to_replay

program = program_to_replay(Path(sys.argv[1])).program
leave = Path(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")


def replayed(steps: int) -> RankReplay:
    """So many steps, and three before them."""
    return replay(
        program,
        TorchReplayTransport(),
        steps=steps,
        warmup=3,
        compute=stand_in("sleep"),
        device=Device(),
        messages=message_dtype(program),
    )


found = replayed(12)
with torch.profiler.profile(record_shapes=True) as profile:
    replayed(1)
steps = sorted(found.bounds[1:] - found.bounds[:-1])
counted = json.loads(torch._C._distributed_c10d._dump_fr_trace_json())["entries"]
leave.mkdir(parents=True, exist_ok=True)
told = {
    "step_s": float(steps[len(steps) // 2]),
    "counted": counted,
    "messages": messages_of(profile),
}
(leave / f"{dist.get_rank()}.json").write_text(json.dumps(told))
dist.destroy_process_group()
