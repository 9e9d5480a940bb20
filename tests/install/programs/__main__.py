"""``python -m tests.install.programs``."""

import sys

from tests.install.programs import main

sys.exit(main())
