"""`python -m wattpack` is the command too."""

import sys

from wattpack.cli import main

sys.exit(main())
