"""Real GPT-2: model, data, precision, gradient-sync strategies, checkpoints.

What is needed before ranks start (options, strategies, data, checkpoint headers) imports no torch.
"""
