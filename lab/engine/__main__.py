"""`python -m lab.engine`."""

import sys

from lab.engine.cli import main

sys.exit(main())
