"""PagingOut: what holds too much in RAM brings pages to the disk: groups of quorum queues, then those queues that have
the most, and last the heads of queues that nobody consumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_broker.queue_types.groups.group import QueueGroup
    from amqp_broker.routing.vhost import VHost
    from queues.holder import Holder
    from queues.pager import Pager
    from queues.queue import Queue


class PagingOut:
    """That of a node. groups: of quorum queues, by their ids. staged: what transactions hold, as far as it can be
    relieved of RAM."""

    def __init__(
        self,
        pager: Pager,
        vhosts: Mapping[str, VHost],
        groups: Mapping[int, QueueGroup],
        staged: Callable[[], list[Holder]],
    ) -> None:
        self._pager = pager
        self._vhosts = vhosts
        self._groups = groups
        self._staged = staged

    def page_out(self, want_bytes: int) -> int:
        """Free so many octets. Returns how many of them were not to be had."""
        pager = self._pager
        want = want_bytes - self._relieve_groups(want_bytes, keeps_heads=True)
        sources = [holder for queue in self._queues() for holder in queue.holders()]
        sources += self._staged()
        sizes = [(source.ram_page_bytes(), index) for index, source in enumerate(sources)]
        for size, index in sorted(sizes, reverse=True):
            if want <= 0 or not size:
                break
            want -= sources[index].page_out(want)
        if want > 0 and pager.used + pager.others_bytes + pager.assembling > pager.budget_bytes:
            # Only heads are left, and those of very many queues fill any budget: who has no consumer can do without.
            want -= self._relieve_groups(want, keeps_heads=False)
            idle = [ready for queue in self._queues() if (ready := queue.idle_ready()) is not None]
            sizes = [(ready.ram_head_bytes(), index) for index, ready in enumerate(idle)]
            for size, index in sorted(sizes, reverse=True):
                if want <= 0 or not size:
                    break
                want -= idle[index].page_out(min(want, size), keeps_head=False)
        return want

    def _queues(self) -> Iterator[Queue]:
        return (queue for vhost in self._vhosts.values() for queue in vhost.queues.all_made())

    def _relieve_groups(self, want_bytes: int, keeps_heads: bool) -> int:
        """The groups of quorum queues bring pages to the disk, those with most in RAM first. Returns what was freed."""
        freed = 0
        for group in sorted(self._groups.values(), key=lambda group: -group.ram_bytes):
            if freed >= want_bytes:
                break
            freed += group.page_out(want_bytes - freed, keeps_heads)
        return freed
