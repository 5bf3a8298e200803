"""`python -m tests.fuzz`: the coverage-guided fuzzer, for `make fuzz`."""

from __future__ import annotations

import sys

from tests.fuzz.coverage_guided import main

sys.exit(main())
