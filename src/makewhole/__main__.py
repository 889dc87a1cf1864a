"""`python -m makewhole` is the command line."""

import sys

from makewhole.cli import main

if __name__ == "__main__":
    sys.exit(main())
