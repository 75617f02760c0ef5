"""Recording: what any torch.distributed script does, step by step, without a change to it."""
