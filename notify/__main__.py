"""``python -m notify``: the same as the console script."""

import sys

from notify.cli import main

if __name__ == "__main__":
    sys.exit(main())
