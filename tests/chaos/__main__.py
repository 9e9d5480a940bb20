"""The command."""

import sys

from tests.chaos.command import main

sys.exit(main())
