"""Check: what is wrong with a distributed job, said with the rank, the line and the mend."""
