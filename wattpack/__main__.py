"""Entry point of `python -m wattpack`."""

import sys

from wattpack.cli import main

sys.exit(main())
