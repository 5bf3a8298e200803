"""Outbox: the frames of a turn for each peer, in the order in which they were put, by whoever shares the links.

Invariant: after `stop` nothing goes out.
"""

from __future__ import annotations


class Outbox:
    """frames: by peer; the same dictionary for good, so that others can look whether there are any."""

    def __init__(self) -> None:
        self.frames: dict[str, list[bytes]] = {}
        self._is_stopped = False

    def put(self, peer: str, frame: bytes) -> None:
        """A frame for a peer, behind those that it is sent already."""
        if not self._is_stopped:
            self.frames.setdefault(peer, []).append(frame)

    def drop(self, peer: str) -> None:
        """The link is gone, with everything on it."""
        self.frames.pop(peer, None)

    def stop(self) -> None:
        """Nothing goes out any more."""
        self._is_stopped = True
        self.frames.clear()

    def take(self) -> list[tuple[str, list[bytes]]]:
        """Frames for each peer, in order."""
        if not self.frames:
            return []
        taken = list(self.frames.items())
        self.frames.clear()
        return taken
