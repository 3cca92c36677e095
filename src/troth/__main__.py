"""`python -m troth` is the command line."""

from troth.cli import main

if __name__ == "__main__":
    main()
