"""Reading the stored pages of a start, to find damage before a message is wanted: in threads before clients are
accepted, and what is too much for that in small steps afterwards.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from storage.errors import StorageError

if TYPE_CHECKING:
    from amqp_broker.resources.page_check import PageCheck

#: A step before the start: large enough that threads seldom meet.
_STEP_BYTES = 8 * 1024 * 1024
#: A step after the start and the pause behind it: syncs wait for it, and other work for the disk.
VERIFY_BYTES = 1024 * 1024
VERIFY_PAUSE_S = 0.02
_MOST_THREADS = 4


def verify_at_start(checks: list[PageCheck], limit_bytes: int) -> deque[PageCheck]:
    """Run the checks of `limit_bytes` of pages, one thread for each core. Returns those that are left.

    Raises CorruptRecord for the first damaged page, OSError.
    """
    left = deque(checks)
    steps: list[list[PageCheck]] = []
    octets = 0
    while left and octets + left[0].disk_bytes <= limit_bytes:
        step = take_few(left, min(_STEP_BYTES, limit_bytes - octets))
        octets += sum(check.disk_bytes for check in step)
        steps.append(step)
    if steps:
        with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1), "verify") as threads:
            try:
                deque(threads.map(_run, steps), maxlen=0)
            except (StorageError, OSError):
                threads.shutdown(cancel_futures=True)
                raise
            except RuntimeError:  # there is no thread to be had
                threads.shutdown(cancel_futures=True)
                for step in steps:
                    _run(step)
    return left


def take_few(checks: deque[PageCheck], octets: int = VERIFY_BYTES) -> list[PageCheck]:
    """Take checks of about so many octets that are still needed, one at least if there is one."""
    few: list[PageCheck] = []
    while checks and (not few or octets >= checks[0].disk_bytes):
        check = checks.popleft()
        if check.is_needed:
            few.append(check)
            octets -= check.disk_bytes
    return few


def failures_of(checks: list[PageCheck]) -> list[tuple[PageCheck, Exception]]:
    """Run checks that may become needless meanwhile: those that failed, with what they raised."""
    failures: list[tuple[PageCheck, Exception]] = []
    for check in checks:
        try:
            check.run()
        except (StorageError, OSError) as error:
            failures.append((check, error))
    return failures


def _run(checks: list[PageCheck]) -> None:
    for check in checks:
        check.run()
