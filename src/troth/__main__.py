"""Runs the command line with `python -m troth`."""

from troth.cli import main

if __name__ == "__main__":
    main()
