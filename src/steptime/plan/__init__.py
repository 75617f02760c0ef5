"""Planning: the search over layouts, and how far predictions have been from measured steps."""
