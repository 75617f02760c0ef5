"""A model shared by ranks: who holds what, and the collectives within forward and backward."""
