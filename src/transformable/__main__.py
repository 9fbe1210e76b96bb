"""``python -m transformable`` is ``tas``."""

import sys

from .cli.entry import main

sys.exit(main())
