"""Scheduling: which worker of a parallel run gets which tests, as `--dist loadgroup` gives them out.

xdist keeps all that a worker has done, and counts through it at each event: with twelve thousand tests that is a sixth
of a run's processor time.
"""

from __future__ import annotations

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController


class Scheduling(LoadGroupScheduling):
    """What is done is forgotten."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        units = self.assigned_work[node]
        if all(units[scope].values()):
            del units[scope]
