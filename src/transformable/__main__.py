"""``python -m transformable`` is ``tas``."""

import sys

from .cli import main

sys.exit(main())
