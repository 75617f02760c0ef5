# MoonshotAI/checkpoint-engine#106: the learner and the rank that generates meet in the store before
# each round's weights are loaded, by a key that is the same every time. It is a barrier once: the
# first round's key stays, and later ones let both through at once, to the weights of a round
# before.
# run: torchrun --nproc-per-node 2 examples/broken/177-a-barrier-once.py
# finds: race at line 31 on ranks 0,1; ranks 0,1

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

ROUNDS, EPISODES = 6, 64
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
store = dist.TCPStore("localhost", 0, is_master=True) if rank == 0 else None
told = [(store.port, tempfile.mkdtemp()) if rank == 0 else None]
dist.broadcast_object_list(told)
port, folder = told[0]
store = store or dist.TCPStore("localhost", port, is_master=False)
weights = Path(folder, "weights.pt")


def meet():
    key = "update"
    if store.add(f"{key} came", 1) == dist.get_world_size():
        store.set(f"{key} all", "1")
    store.wait([f"{key} all"])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
batch = torch.empty(EPISODES, 9)
for _ in range(ROUNDS):
    if rank == 0:
        torch.save(model.state_dict(), f"{weights}.new")
        Path(f"{weights}.new").replace(weights)
    meet()
    if rank == 0:
        dist.recv(batch, 1)
        scores = model(batch[:, :6]).log_softmax(-1).gather(1, batch[:, 6:7].long())
        optimizer.zero_grad()
        (-(scores * batch[:, 8:]).mean()).backward()
        optimizer.step()
    else:
        model.load_state_dict(torch.load(weights))
        state = torch.randn(EPISODES, 6)
        with torch.no_grad():
            chances = model(state).log_softmax(-1)
        action = torch.multinomial(chances.exp(), 1)
        parts = [state, action, chances.gather(1, action), state.gather(1, action)]
        dist.send(torch.cat(parts, dim=1), 0)
dist.destroy_process_group()
