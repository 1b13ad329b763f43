"""`python -m labkit` is the `labkit` command, for installations whose scripts are not on PATH."""

import sys

from labkit.course.cli import main

if __name__ == "__main__":
    sys.exit(main())
