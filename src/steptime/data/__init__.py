"""Text made into token shards to train on: streaming, on all cores, resumable, reproducible."""
