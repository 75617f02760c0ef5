"""What of a training is kept: its state on disk, and where its time went.

What is needed before ranks start (markers, folders, the newest good checkpoint) imports no torch.
"""
