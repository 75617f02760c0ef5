"""Run the command line as ``python -m steptime``."""

import sys

from steptime.cli import main

if __name__ == "__main__":
    sys.exit(main())
