"""The local page and its API: explain, erase, compare and open a run, as on the command line."""
