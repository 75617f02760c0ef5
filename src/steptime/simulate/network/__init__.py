"""Network simulation: flows on links, their max-min fair rates, and events of their messages."""
