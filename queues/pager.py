"""Pager: the RAM that queues may use together, and the way of their pages to disk and back.

`used` counts what queues hold in RAM: entries (head and unacknowledged) by `Message.size`, pages by their octets.
`elsewhere` is what other pagers of the node hold: they all share one budget. `assembling` counts apart what connections
hold of messages that are not whole yet. Above `tight_bytes` a page is stored as soon as it is sealed, and the node lets
the queues store pages that they have, a little each turn, so that no turn is long; a queue that pages delays nobody
else.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from queues.message import Entry
from queues.page import AddressBook, Page
from storage.disk import Octets
from storage.page_store import PageLocation, PageStore

#: Share of the budget above which new pages go to disk.
TIGHT_PERCENT = 60
#: Pagers hear of a change of more than this share of the budget: 1 / 2**6.
_MUCH_SHIFT = 6
#: Pages are fetched ahead so many octets at a time: each time the thread that does it has to wait for the interpreter,
#: which a busy loop seldom lets go.
_AHEAD_BYTES = 1024 * 1024


class Pager:
    """Shared by all queues of a node.

    budget_bytes: what queues may hold in RAM together. page_bytes: the size at which a page is sealed.
    head_messages, head_bytes: what a queue keeps unpacked at its head before it begins to fill pages. large_head_bytes:
    the same for messages with large bodies that are not in the journal; 0: no more than for others. has_named_pages:
    something that is in the journal by now names pages, so they have to be synced with it or before it.
    """

    def __init__(
        self,
        page_store: PageStore,
        budget_bytes: int,
        page_bytes: int,
        head_messages: int,
        head_bytes: int,
        large_head_bytes: int = 0,
    ) -> None:
        self.page_store = page_store
        self.addresses = AddressBook()
        self.budget_bytes = budget_bytes
        self.tight_bytes = budget_bytes * TIGHT_PERCENT // 100
        self.page_bytes = page_bytes
        self.pages_ahead = max(1, _AHEAD_BYTES // page_bytes)
        self.head_messages = head_messages
        self.head_bytes = head_bytes
        self.large_head_bytes = large_head_bytes
        self.used = 0
        self.others_bytes = 0
        self.assembling = 0
        self.has_no_room = False
        self.has_named_pages = False
        self.released: list[tuple[int, Any, bool]] = []
        self.pages_stored = self.messages_stored = 0
        self.pages_loaded = self.messages_loaded = 0

    def another(self) -> Pager:
        """One with the same pages, budget and sizes, for queues that hold large messages as they do others."""
        return Pager(self.page_store, self.budget_bytes, self.page_bytes, self.head_messages, self.head_bytes)

    def try_again(self) -> None:
        """There may be room on the disk again."""
        self.has_no_room = False

    def assemble(self, octets: int) -> None:
        """So much more came of messages that are not whole yet; below 0: so much less is held of such."""
        self.assembling += octets

    def share(self, others_bytes: int) -> None:
        """Other pagers hold so much of the budget: what is tight here is what they leave."""
        self.others_bytes = others_bytes
        self.tight_bytes = max(0, self.budget_bytes * TIGHT_PERCENT // 100 - others_bytes)

    def limit(self, budget_bytes: int) -> None:
        """The budget is so large from now on."""
        self.budget_bytes = budget_bytes
        self.share(self.others_bytes)

    def excess(self) -> int:
        """How many octets more there are in RAM, of all pagers and of messages that are not whole yet, than what the
        queues keep there when memory is short; below 0 for fewer."""
        held = self.used + self.others_bytes + self.assembling
        return held - self.budget_bytes * TIGHT_PERCENT // 100

    def unacked_allowed(self) -> int:
        """How many unacknowledged deliveries a consumer may hold, as those cannot be paged: the further above the
        budget, the fewer; 0 for any."""
        budget = self.budget_bytes
        used = self.used + self.others_bytes
        if used <= budget:
            return 0
        over = 4 * (used - budget) // budget
        return 1000 if over < 1 else 100 if over < 2 else 10 if over < 4 else 1

    def store(self, queue_id: int, page: Page) -> None:
        """Give the page a place on disk (page cache: `page_store.sync` makes it durable). It stays in RAM too.

        On a full disk it gets none and stays in RAM only; `has_no_room` says so, and nothing more is tried until the
        node clears it.
        """
        if page.location is None and not self.has_no_room:
            # Without a place on disk it is in RAM.
            try:
                page.location = self.page_store.append(queue_id, page.data)  # type: ignore[arg-type]
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self.has_no_room = True
            else:
                self.pages_stored += 1
                self.messages_stored += page.count

    def place(self, queue_id: int, octets: Octets, messages: int) -> PageLocation | None:
        """A place on disk for what the next sync of pages writes there (PageStore.place), so many messages; None: there
        is no room, as in `store`."""
        if self.has_no_room:
            return None
        try:
            location: PageLocation = self.page_store.place(queue_id, octets)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.has_no_room = True
            return None
        self.pages_stored += 1
        self.messages_stored += messages
        return location

    def drop(self, page: Page) -> None:
        """Forget the octets in RAM of a stored page."""
        if page.data is not None and page.location is not None:
            self.used -= page.size
            page.data = None

    def load(self, queue_id: int, page: Page, size: int = 0) -> None:
        """Bring the octets of a stored page back to RAM. size: how many, where it may be packed (PageStore.read)."""
        if page.data is None:
            page.data = self.page_store.read(queue_id, page.location, size)
            page.start = 0
            self._loaded(page, len(page.data))

    def load_to_unpack(self, queue_id: int, page: Page) -> None:
        """As `load`, without a copy: the octets are shared with other pages, so the caller unpacks and forgets them."""
        if page.data is None:
            page.data, page.start = self.page_store.take(queue_id, page.location)
            self._loaded(page, page.location.length)

    def records_of(self, queue_id: int, page: Page) -> tuple[bytes, int, int]:
        """A page's records, for a look at them that leaves the page where it is: data, where they begin in it, how many
        octets they have."""
        if page.data is not None:
            return page.data, page.start, page.size
        assert page.location is not None  # what is not in RAM is on the disk
        data, start = self.page_store.take(queue_id, page.location)
        return data, start, page.location.length

    def entries_of(self, queue_id: int, page: Page) -> list[Entry]:
        """What is in a page, which stays as it is."""
        data, start, size = self.records_of(queue_id, page)
        copy = Page(data, page.count, page.first, page.last, page.message_bytes)
        copy.lie_in(start, size, page.is_recovered)
        return copy.entries(self.addresses)

    def _loaded(self, page: Page, size: int) -> None:
        page.size = size
        self.used += size
        self.pages_loaded += 1
        self.messages_loaded += page.count

    def read_ahead(self, queue_id: int, pages: Sequence[Page]) -> None:
        """The first of these pages are wanted soon: fetch `pages_ahead` of them while as many others are consumed."""
        count = self.pages_ahead
        for begin in (0, count):
            if begin < len(pages):
                page = pages[begin]
                if page.data is None and not self.page_store.is_coming(queue_id, page.location):
                    following = islice(pages, begin, begin + count)
                    self.page_store.read_ahead(queue_id, [each.location for each in following if each.data is None])

    def add_used(self, size: int) -> None:
        """What is no queue holds so much more in RAM; so much less, if it is negative."""
        self.used += size

    def drop_entry(self, queue_id: int, entry: Entry) -> None:
        """A message leaves its queue: it is not in RAM any more, nor in its stored page."""
        self.used -= entry.message.size
        if entry.page is not None:
            self.settle(queue_id, entry.page)
            entry.page = None

    def settle(self, queue_id: int, page: Page, count: int = 1) -> None:
        """Messages of a stored page are settled, or stored elsewhere; the page's place is released with the last."""
        page.live -= count
        if page.live == 0:
            self.release(queue_id, page)

    def release(self, queue_id: int, page: Page) -> None:
        """The page is gone: give back its RAM now, and its place on disk once its settlements are synced.

        `released` collects (queue id, location, whether the journal names the page) for MessageStore.
        """
        if page.data is not None:
            self.used -= page.size
            page.data = None
        if page.location is not None:
            self.released.append((queue_id, page.location, page.is_named))
            page.location = None

    def release_places(self, places: Iterable[tuple[int, Any, bool]]) -> None:
        """These places on disk are given back in the same way, of no page any more."""
        self.released += places

    def take_released(self) -> list[tuple[int, Any, bool]]:
        """What was released; who takes it gives it back."""
        released, self.released = self.released, []
        return released

    def names_pages(self) -> None:
        """What is written next names pages, which have to be on the disk before it (`take_named`)."""
        self.has_named_pages = True


def share_budget(pagers: list[Pager]) -> None:
    """All pagers of a node have one budget: they hear what the others hold, when that has changed by much."""
    held = 0
    for pager in pagers:
        held += pager.used
    much = pagers[0].budget_bytes >> _MUCH_SHIFT
    for pager in pagers:
        elsewhere = held - pager.used
        if not -much < elsewhere - pager.others_bytes < much:
            pager.share(elsewhere)


def take_named(pagers: list[Pager]) -> bool:
    """Whether the next sync has to bring pages to the disk before the journal. Once."""
    wants = False
    for pager in pagers:
        if pager.has_named_pages:
            pager.has_named_pages = False
            wants = True
    return wants
