"""The network of a simulation: flows on links, their max-min fair rates, and its events."""
