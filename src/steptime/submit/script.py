"""The batch script of a job: plain text, which its user can read, change and send by hand."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from steptime.submit.options import SubmitOptions, quoted

STOPPED = 143
"""The exit code of ranks that SIGTERM ended, once training has kept its state."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to run, and where."""

    name: str
    command: tuple[str, ...]
    """What each rank runs."""

    cwd: Path
    """Where it runs; the nodes of the job see it under the same name."""

    output: str
    """Where what it prints goes, from ``cwd`` on, with sbatch's own ``%j`` for the job's number."""

    made_by: str
    """The command that made the script."""

    requeue: bool
    """Whether it may wait again, and go on."""


def batch_script(job: Job, asked: SubmitOptions) -> str:
    """The script that sbatch takes: what is asked for, where the ranks meet, and srun for them."""
    parts = [
        ["#!/bin/bash", *(f"#SBATCH {line}" for line in _directives(job, asked))],
        [f"# Made by: {job.made_by}", "# To send it by hand: sbatch, and the name of this file."],
        _meeting(asked),
        ["# What the site needs first.", asked.setup] if asked.setup else [],
        _ranks(job, asked),
        _end(job),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _directives(job: Job, asked: SubmitOptions) -> list[str]:
    given = {
        "job-name": job.name,
        "nodes": asked.nodes,
        "ntasks-per-node": asked.ranks_here,
        "gpus-per-node": asked.gpus_per_node,
        "cpus-per-task": asked.cpus_per_rank,
        "time": asked.limit,
        "partition": asked.partition,
        "account": asked.account,
        "signal": f"TERM@{asked.notice_s}",
        "chdir": quoted(str(job.cwd)),
        "output": quoted(job.output),
        "open-mode": "append",  # what it printed before it was requeued stays
    }
    named = [f"--{option}={value}" for option, value in given.items() if value is not None]
    return [*named, "--requeue" if job.requeue else "--no-requeue", *asked.directives]


def _meeting(asked: SubmitOptions) -> list[str]:
    return [
        "# Where the ranks meet: on the first node, at a port of this job alone.",
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))",
        f"export MASTER_ADDR MASTER_PORT WORLD_SIZE={asked.ranks} "
        f"LOCAL_WORLD_SIZE={asked.ranks_here}",
    ]


def _ranks(job: Job, asked: SubmitOptions) -> list[str]:
    cores = "" if asked.cpus_per_rank is None else f" --cpus-per-task={asked.cpus_per_rank}"
    return [
        "# A process a rank, with torchrun's variables; where one fails, all end.",
        f"srun --kill-on-bad-exit=1{cores} bash -c '",
        "    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID",
        '    exec "$@"',
        f"' rank {shlex.join(job.command)}",
        "status=$?",
    ]


def _end(job: Job) -> list[str]:
    if not job.requeue:
        return ['exit "$status"']
    return [
        f"# {STOPPED}: SIGTERM came as the time was nearly over, and the ranks kept their",
        "# state: the rest waits in the queue again. (Preempted jobs get there anyhow.)",
        f'if [ "$status" = {STOPPED} ]; then scontrol requeue "$SLURM_JOB_ID"; fi',
        'exit "$status"',
    ]
