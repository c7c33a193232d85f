"""The command line as ``python -m newton_sap.cli``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
