"""Training a classifier: one loop (loop.py), recipes that say what is special about it, and bases it starts from."""
