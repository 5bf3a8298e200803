"""`python -m tests.simulation`: one node, or with `--cluster 3` several."""

from __future__ import annotations

import sys

from tests.cluster_simulation import simulate
from tests.simulation import run

if __name__ == "__main__":
    is_cluster = any(argument.partition("=")[0] == "--cluster" for argument in sys.argv[1:])
    sys.exit(simulate.main() if is_cluster else run.main())
