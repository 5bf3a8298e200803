"""Worlds that leave nothing behind: what runs them does so in a process of its own.

A message that somebody holds, and who holds it, are a cycle that the collector does not see (queues/message.py). A
broker ends each of them; a world that is over does not, and a process of many worlds would grow by each of them, and
its collector go through all.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import pickle
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def apart(work: Callable[P, R]) -> Callable[P, R]:
    """The same in a copy of this process. What it returns, or raises, is octets on the way back; what it changes is
    gone with it."""

    @functools.wraps(work)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        context = multiprocessing.get_context("fork")
        receiving, sending = context.Pipe(duplex=False)

        def work_apart(there: Connection) -> None:
            gc.freeze()  # what tests before have left is not looked through in each copy, and copied by that
            try:
                there.send((work(*arguments, **named), None))
            except BaseException as error:  # noqa: BLE001  # it is raised where somebody waits for it
                there.send((None, _whole(error)))

        process = context.Process(target=work_apart, args=(sending,))
        process.start()
        sending.close()
        try:
            result, error = receiving.recv()
        except EOFError:
            process.join()
            raise RuntimeError(f"the process of {work.__name__} ended with {process.exitcode}") from None
        except BaseException:
            process.kill()
            raise
        finally:
            process.join()
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # what `work` has returned

    return run


def _whole(error: BaseException) -> BaseException:
    """It, with where it was raised; or a text of both, where it cannot be sent."""
    told = "".join(traceback.format_exception(error))
    error.add_note(told)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # an exception of any library may do anything when it is made anew
        return RuntimeError(told)
    return error
