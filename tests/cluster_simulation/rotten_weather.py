"""RottenWeather: when it is calm, octets of pages of streams are others on the disk of one member each; whoever reads a
stream there from its beginning gets all that there is, as on the others (decision record 0045).
"""

from __future__ import annotations

import logging
from typing import Any

from storage.page_store import page_path
from tests.cluster_simulation.stream_weather import StreamWeather


class RottenWeather(StreamWeather):
    """counts: "damaged" pages, and those that were found "damaged when read"."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.defects.addFilter(self._is_defect)

    def _is_defect(self, record: logging.LogRecord) -> bool:
        is_damage = "cannot be read, and is asked of" in record.getMessage()
        self.counts["damaged when read"] += is_damage
        return not is_damage

    def before_the_last_readers(self) -> None:
        """See StreamWeather."""
        for kind in self.stream_kinds:
            node = self.chance.choice(self.serving())
            _, stream = self._find(node, kind)
            stream.log.page_out(1 << 40)
            cold = [part for part in stream.log.parts() if part.page.data is None]
            for part in self.chance.sample(cold, min(len(cold), 3)):
                location = part.page.location
                path = page_path(stream.log.queue_id, location.segment)
                octets = bytearray(node.disk.contents(path))
                octets[location.offset + self.chance.randrange(location.disk_bytes)] ^= 1 << self.chance.randrange(8)
                node.disk.overwrite(path, bytes(octets))
                self.note(f"offsets {part.page.first} to {part.page.last} of {kind.name} rot on {node.name}")
                self.counts["damaged"] += 1
