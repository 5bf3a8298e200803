"""Quorum queues over a stream: what they hand out, what comes back, what is lost, and what an image has of them."""

from __future__ import annotations

import pytest

from queues.effects import Counted, DeadLettered, GetAnswered, Unreadable
from queues.page import AddressBook
from queues.quorum.commands import (
    VERSION_WITH_STREAMS,
    Batch,
    Detach,
    DropQueue,
    Get,
    How,
    Purge,
    Settle,
    Tick,
    decode_batch,
    encode_batch,
)
from queues.quorum.cursor_commands import OpenCursor
from queues.quorum.cursor_ready import ABSENT
from queues.quorum.cursor_settings import CursorSettings
from queues.quorum.retry import Retry, RetryType
from queues.reason import Reason
from queues.stream.commands import OpenStream, Trim
from queues.stream.settings import StreamSettings
from queues.stream.start import Start, StartKind
from queues.wire.reader import Malformed
from tests.queues.quorum.digest import digest_of
from tests.queues.quorum.quorum_world import of_type
from tests.queues.stream.cursor_world import (
    CURSOR,
    bodies,
    cursor_of,
    delivered,
    figures,
    message_of,
    one_cursor,
    publish,
    publish_all,
    settings_of,
)
from tests.queues.stream.stream_world import STREAM, commit_as, one_stream, stream_of, tiny_pages

__all__ = ["tiny_pages"]


def test_consumers_share_what_is_published() -> None:
    group, node = one_cursor(b"a", b"b", b"c")
    assert figures(group.members[0]) == (3, 0, 0)
    first, effects = node.attach(CURSOR, prefetch=1)
    assert bodies(effects) == [b"a"]
    second, effects = node.attach(CURSOR, prefetch=5)
    assert bodies(effects) == [b"b", b"c"]
    assert figures(group.members[0]) == (0, 3, 0)
    assert bodies(node.send(Settle(first, How.ACK, ((1, 1),)))) == []
    publish(group, b"d", b"e")
    assert bodies(node.member.effects)[-2:] == [b"d", b"e"]
    node.send(Settle(second, How.ACK, ((1, 3),)))
    assert figures(group.members[0])[:2] == (0, 1)


def test_deliveries_have_the_offset_and_nothing_is_kept_for_them() -> None:
    group, node = one_cursor(b"a", b"b")
    node.attach(CURSOR)
    found = [each.message for each in node.member.effects if hasattr(each, "delivery_id")]
    assert b"x-stream-offsetl" + (1).to_bytes(8, "big") in found[1].content
    held = [entry for entry, _ in next(iter(cursor_of(group.members[0]).delivery_owners.values())).held.values()]
    assert [(entry.sequence, entry.message) for entry in held] == [(0, ABSENT), (1, ABSENT)]


def test_a_hundred_queues_hold_no_message_of_the_stream() -> None:
    """What they hold of it, in RAM and in a checkpoint, are offsets."""
    group, node = one_cursor(*[b"x" * 1000 for _ in range(50)])
    member = group.members[0]
    used, size = member.pager.used, sum(map(len, member.machine.checkpoint()))
    for queue_id in range(100, 200):
        node.send(OpenCursor(queue_id, settings_of()))
        node.attach(queue_id, prefetch=20)
    assert len(bodies(node.member.effects)) == 2000
    assert member.pager.used == used
    assert sum(map(len, member.machine.checkpoint())) - size < 2000 * 64 + 100 * 512


def test_what_comes_back_comes_first_and_counts() -> None:
    group, node = one_cursor(b"a", b"b", b"c", delivery_limit=1)
    consumer, _ = node.attach(CURSOR, prefetch=2)
    assert delivered(node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))) == [(3, b"a", 1)]
    effects = node.send(Settle(consumer, How.REQUEUE, ((3, 3),)))
    assert delivered(effects) == [(4, b"c", 0)]  # a has come back too often, and is dropped
    node.send(Settle(consumer, How.ACK, ((2, 4),)))
    assert figures(group.members[0]) == (0, 0, 0)


def test_dead_letters_are_copies() -> None:
    group, node = one_cursor(b"a", b"b", dead_letter_exchange="dead")
    group.members[0].machine.role_changed(True, "n1", 1, 0)
    consumer, _ = node.attach(CURSOR)
    effects = node.send(Settle(consumer, How.REJECT, ((1, 2),)))
    letters = of_type(effects, DeadLettered)
    assert [(each.message.body_bytes(), each.reason) for each in letters] == [
        (b"a", Reason.REJECTED), (b"b", Reason.REJECTED),
    ]  # fmt: skip
    publish(group, b"c")
    node.send(Trim(STREAM, 2))
    assert group.members[0].queue(CURSOR).letters.count == 2


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start(StartKind.FIRST), [b"a", b"b", b"c", b"d"]),
        (Start(StartKind.LAST), [b"c", b"d"]),
        (Start(StartKind.NEXT), []),
        (Start(StartKind.OFFSET, 1), [b"b", b"c", b"d"]),
        (Start(StartKind.OFFSET, 100), []),
        (Start(StartKind.FROM_END, 1), [b"d"]),
        (Start(StartKind.FROM_END, 100), [b"a", b"b", b"c", b"d"]),
        (Start(StartKind.TIME, 10_050), [b"c", b"d"]),
        (Start(StartKind.AGE, 50), [b"c", b"d"]),
    ],
)
def test_where_it_begins(start: Start, expected: list[bytes]) -> None:
    group, node = one_stream()
    publish(group, b"a", b"b")
    group.now += 100
    publish(group, b"c", b"d")
    node.send(OpenCursor(CURSOR, settings_of(start)))
    _, effects = node.attach(CURSOR)
    assert bodies(effects) == expected
    publish(group, b"e")
    assert bodies(node.member.effects)[-1] == b"e"


def test_it_may_be_there_before_its_stream() -> None:
    group, node = one_cursor(stream_id=9)
    node.attach(CURSOR)
    node.send(OpenStream(9, StreamSettings()))
    assert cursor_of(group.members[0]).place.stream is group.members[0].machine.stream(9)
    assert cursor_of(group.members[0]).place.is_begun


def test_basic_get() -> None:
    group, node = one_cursor(b"a")
    effects = node.send(Get(node.new_consumer(), CURSOR), Get(node.new_consumer(), CURSOR))
    got = of_type(effects, GetAnswered)
    assert [each.message and each.message.body_bytes() for each in got] == [b"a", None]
    assert figures(group.members[0]) == (0, 1, 0)


def test_a_purge_goes_to_the_end() -> None:
    group, node = one_cursor(b"a", b"b", b"c")
    consumer, _ = node.attach(CURSOR, prefetch=1)
    assert of_type(node.send(Purge(CURSOR)), Counted)[0].messages == 2
    publish(group, b"d")
    assert bodies(node.send(Settle(consumer, How.ACK, ((1, 1),)))) == [b"d"]
    assert stream_of(group.members[0]).next == 4


def test_deleting_it_does_not_touch_the_stream() -> None:
    group, node = one_cursor(b"a", b"b")
    assert of_type(node.send(DropQueue(CURSOR)), Counted)[0].messages == 2
    stream = stream_of(group.members[0])
    assert (stream.first, stream.next, stream.followers) == (0, 2, {})
    publish(group, b"c")


def test_what_retention_takes_is_lost() -> None:
    group, node = one_cursor(b"a", b"b", b"c", b"d", b"e")
    consumer, _ = node.attach(CURSOR, prefetch=2)
    node.send(Settle(consumer, How.RETURN, ((1, 1),)))  # a comes again, as delivery 3
    node.send(Trim(STREAM, 3))
    assert figures(group.members[0]) == (2, 2, 1)
    assert bodies(node.send(Settle(consumer, How.REQUEUE, ((3, 3),)))) == [b"d"]
    assert figures(group.members[0]) == (1, 2, 2)
    assert bodies(node.send(Settle(consumer, How.ACK, ((2, 2),)))) == [b"e"]
    node.send(Settle(consumer, How.ACK, ((1, 9),)))
    assert figures(group.members[0]) == (0, 0, 2)


def test_what_came_back_and_is_ready_is_lost_too() -> None:
    group, node = one_cursor(b"a", b"b", b"c")
    consumer, _ = node.attach(CURSOR, prefetch=2)
    node.send(Detach(consumer, True))
    assert figures(group.members[0]) == (3, 0, 0)
    node.send(Trim(STREAM, 1))
    assert figures(group.members[0]) == (2, 0, 1)
    _, effects = node.attach(CURSOR)
    assert delivered(effects) == [(1, b"b", 1), (2, b"c", 0)]


def test_a_dead_letter_whose_message_is_gone_is_lost() -> None:
    group, node = one_cursor(b"a", b"b", dead_letter_exchange="dead")
    consumer, _ = node.attach(CURSOR, prefetch=1)
    node.send(Trim(STREAM, 1))
    node.send(Settle(consumer, How.REJECT, ((1, 1),)))
    assert figures(group.members[0])[2] == 1
    assert not group.members[0].queue(CURSOR).letters.count


def test_without_its_stream_it_is_empty() -> None:
    group, node = one_cursor(b"a", b"b", b"c")
    consumer, _ = node.attach(CURSOR, prefetch=1)
    node.send(DropQueue(STREAM))
    assert figures(group.members[0]) == (0, 1, 2)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    assert figures(group.members[0]) == (0, 0, 3)
    member = group.members[0]
    digest = digest_of(member.machine)
    member.checkpoint()
    member.restart(group.log)
    assert digest_of(member.machine) == digest


def test_messages_expire_so_long_after_their_publication() -> None:
    group, node = one_cursor(b"a", message_ttl=100)
    group.advance(60)
    publish(group, b"b")
    group.advance(50)
    assert figures(group.members[0]) == (1, 0, 0)
    assert cursor_of(group.members[0]).drops[Reason.EXPIRED] == 1
    _, effects = node.attach(CURSOR)
    assert bodies(effects) == [b"b"]
    group.advance(1000)
    assert figures(group.members[0]) == (0, 1, 0)


def test_settings_change_and_the_place_stays() -> None:
    group, node = one_cursor(b"a", b"b")
    consumer, _ = node.attach(CURSOR, prefetch=1)
    node.send(OpenCursor(CURSOR, settings_of(Start(StartKind.NEXT), delivery_limit=0)))
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    assert bodies(node.member.effects) == [b"a", b"b"]
    assert isinstance(group.members[0].machine.settings_of(CURSOR), CursorSettings)


def test_an_image_and_a_checkpoint_have_all_of_it(tiny_pages: None) -> None:
    group, node = one_cursor(*[b"%d" % number for number in range(40)], members=2, has_key_order=True)
    publish_all(group, *[message_of(b"k%d" % number, b"k%d" % (number % 3)) for number in range(12)])
    consumer, _ = node.attach(CURSOR, prefetch=6)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    node.send(Detach(consumer, False))
    one, two = group.members
    assert digest_of(one.machine) == digest_of(two.machine)
    one.checkpoint()
    one.restart(group.log)
    assert digest_of(one.machine) == digest_of(two.machine)
    two.install_from(one)
    assert digest_of(one.machine) == digest_of(two.machine)
    publish(group, b"last")
    node.send(Purge(CURSOR))
    assert digest_of(one.machine) == digest_of(two.machine)


def test_what_a_node_has_missed_and_cannot_be_read_is_said() -> None:
    group, node = one_cursor(members=2)
    one, two = group.members
    consumer, _ = node.attach(CURSOR)
    group.members = [two]
    publish(group, b"a", b"b")
    group.lead()
    commit_as(group, "trimmer", 1, Trim(STREAM, 1))
    one.install_from(two)
    assert bodies(one.effects) == [b"b"]
    assert of_type(one.effects, Unreadable) == [Unreadable(consumer, 1)]


def test_what_was_fetched_meanwhile_and_cannot_be_read_is_no_answer() -> None:
    """With its number, so that the node gives it back."""
    group, node = one_cursor(b"a", members=2)
    one, two = group.members
    group.members = [two]
    number = node.new_consumer()
    batch = Batch(group.now, "n1", node.session, node.sequence + 1, 0, [Get(number, CURSOR)])
    group.commit(encode_batch(batch))
    commit_as(group, "trimmer", 1, Trim(STREAM, 1))
    one.install_from(two)
    (got,) = of_type(one.effects, GetAnswered)
    assert (got.consumer, got.delivery_id, got.message) == (number, 1, None)


# -- filters -----------------------------------------------------------------------------------------------------------


def test_only_what_is_wanted_comes() -> None:
    group, node = one_cursor(values=(b"red", b"blue"))
    values = [b"red", b"green", None, b"blue", b"redder"]
    publish_all(group, *[message_of(b"%d" % number, value=value) for number, value in enumerate(values)])
    publish(group, b"5", b"6", value=b"green")
    publish(group, b"7", value=b"red")
    _, effects = node.attach(CURSOR)
    assert bodies(effects) == [b"0", b"3", b"7"]
    assert figures(group.members[0]) == (0, 3, 0)


def test_what_has_no_value_may_be_wanted_too() -> None:
    group, node = one_cursor(values=(b"red",), takes_unfiltered=True)
    publish(group, b"0", b"1")
    publish(group, b"2", value=b"green")
    publish(group, b"3", value=b"red")
    _, effects = node.attach(CURSOR)
    assert bodies(effects) == [b"0", b"1", b"3"]


def test_what_is_looked_at_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.quorum.cursor_ready.LOOKED_AT_ONCE", 3)
    group, node = one_cursor(values=(b"red",))
    values = [b"green"] * 10 + [b"red"]
    publish_all(group, *[message_of(b"%d" % number, value=value) for number, value in enumerate(values)])
    _, effects = node.attach(CURSOR)
    assert not bodies(effects)
    member = group.members[0]
    assert figures(member) == (8, 0, 0)
    ticks = 0
    while member.machine.next_deadline() is not None:
        effects += group.lead(Tick())["n1"]
        ticks += 1
    assert (ticks, bodies(effects)) == (3, [b"10"])


def test_who_fetches_is_told_whether_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wanted may stand behind all that one entry of the log looks at; what waits for its key is for nobody."""
    monkeypatch.setattr("queues.quorum.cursor_ready.LOOKED_AT_ONCE", 3)
    group, node = one_cursor(values=(b"red",), has_key_order=True)
    values = [b"green"] * 7 + [b"red", b"red"]
    publish_all(group, *[message_of(b"%d" % number, value=value) for number, value in enumerate(values)])
    found = []
    for _ in range(4):
        (answer,) = of_type(node.send(Get(node.new_consumer(), CURSOR)), GetAnswered)
        found.append((answer.message and answer.message.body_bytes(), answer.ready))
    assert found == [(None, 6), (None, 3), (b"7", 1), (None, 0)]
    assert figures(group.members[0])[:2] == (1, 1)


# -- the order of keys -------------------------------------------------------------------------------------------------


def test_of_a_key_one_is_out_at_a_time() -> None:
    group, node = one_cursor(has_key_order=True)
    publish_all(group, *[message_of(body, body[:1]) for body in (b"a1", b"a2", b"b1", b"a3", b"b2")])
    publish(group, b"none", b"none", key=b"")
    consumer, effects = node.attach(CURSOR)
    assert bodies(effects) == [b"a1", b"b1", b"none", b"none"]
    assert figures(group.members[0]) == (3, 4, 0)
    assert bodies(node.send(Settle(consumer, How.ACK, ((1, 1),)))) == [b"a2"]
    assert delivered(node.send(Settle(consumer, How.REQUEUE, ((5, 5),)))) == [(6, b"a2", 1)]
    assert bodies(node.send(Settle(consumer, How.REJECT, ((6, 6),)))) == [b"a3"]
    assert bodies(node.send(Settle(consumer, How.ACK, ((2, 2),)))) == [b"b2"]
    node.send(Settle(consumer, How.ACK, ((3, 8),)))
    place = cursor_of(group.members[0]).place
    assert (place.keys, place.waiting, place.waits, place.count) == ({}, {}, 0, 0)


def test_what_waits_for_its_key_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.quorum.cursor_ready.LOOK_AHEAD", 3)
    group, node = one_cursor(has_key_order=True)
    publish_all(group, *[message_of(b"%d" % number, b"k") for number in range(6)], message_of(b"x", b"x"))
    consumer, effects = node.attach(CURSOR)
    assert bodies(effects) == [b"0"]
    place = cursor_of(group.members[0]).place
    assert (place.waits, place.next, place.count) == (3, 4, 6)
    found = []
    for number in range(1, 8):
        found += bodies(node.send(Settle(consumer, How.ACK, ((number, number),))))
    assert found == [b"1", b"2", b"3", b"x", b"4", b"5"]


def test_retention_reaches_what_waits_for_its_key() -> None:
    group, node = one_cursor(has_key_order=True)
    publish_all(group, *[message_of(b"%d" % number, b"k") for number in range(5)])
    consumer, _ = node.attach(CURSOR)
    node.send(Trim(STREAM, 3))
    assert figures(group.members[0]) == (2, 1, 2)
    assert bodies(node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))) == [b"3"]
    assert figures(group.members[0]) == (1, 1, 3)


# -- delayed retry -----------------------------------------------------------------------------------------------------


def test_what_comes_back_rests_and_others_go_on() -> None:
    group, node = one_cursor(b"a", b"b", b"c", retry=Retry(RetryType.ALL, 100))
    consumer, _ = node.attach(CURSOR, prefetch=1)
    assert bodies(node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))) == [b"b"]
    assert cursor_of(group.members[0]).statistics().delayed == 1
    assert figures(group.members[0]) == (1, 1, 0)
    group.advance(100)
    assert figures(group.members[0]) == (2, 1, 0)
    assert delivered(node.send(Settle(consumer, How.ACK, ((2, 2),)))) == [(3, b"a", 1)]


def test_a_key_that_rests_holds_back_only_itself() -> None:
    group, node = one_cursor(has_key_order=True, retry=Retry(RetryType.ALL, 100))
    publish_all(group, *[message_of(b"%d" % number, b"k" if number < 3 else b"l") for number in range(6)])
    consumer, effects = node.attach(CURSOR)
    assert bodies(effects) == [b"0", b"3"]
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    found = bodies(node.send(Settle(consumer, How.ACK, ((2, 2),))))
    found += bodies(node.send(Settle(consumer, How.ACK, ((3, 3),))))
    assert found == [b"4", b"5"]
    assert bodies(group.advance(100)["n1"]) == [b"0"]


def test_who_is_installed_knows_what_rests() -> None:
    group, node = one_cursor(b"a", b"b", members=2, retry=Retry(RetryType.ALL, 100), has_key_order=True)
    consumer, _ = node.attach(CURSOR)
    node.send(Settle(consumer, How.REQUEUE, ((1, 1),)))
    first, second = group.members
    second.install_from(first)
    first.checkpoint()
    first.restart(group.log)
    assert digest_of(first.machine) == digest_of(second.machine)
    group.advance(100)
    assert digest_of(first.machine) == digest_of(second.machine)
    assert figures(second) == (1, 1, 0)  # the other one waits for its key


def test_retention_and_the_end_of_the_stream_reach_what_rests() -> None:
    group, node = one_cursor(b"a", b"b", b"c", retry=Retry(RetryType.ALL, 100))
    consumer, _ = node.attach(CURSOR)
    node.send(Settle(consumer, How.REQUEUE, ((1, 3),)))
    node.send(Trim(STREAM, 1))
    assert bodies(group.advance(100)["n1"]) == [b"b", b"c"]
    assert figures(group.members[0]) == (0, 2, 1)
    node.send(Settle(consumer, How.REQUEUE, ((4, 5),)))
    node.send(DropQueue(STREAM))
    assert figures(group.members[0]) == (0, 0, 3)
    assert cursor_of(group.members[0]).statistics().delayed == 0


def test_when_very_many_rest_nothing_more_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queues.quorum.cursor_ready._MOST_RESTING", 2)
    group, node = one_cursor(b"a", b"b", b"c", b"d", retry=Retry(RetryType.ALL, 100), message_ttl=500)
    consumer, _ = node.attach(CURSOR, prefetch=2)
    assert bodies(node.send(Settle(consumer, How.REQUEUE, ((1, 2),)))) == []
    assert group.members[0].machine.next_deadline() == group.now + 100
    assert bodies(group.advance(100)["n1"]) == [b"a", b"b"]


# -- octets ------------------------------------------------------------------------------------------------------------


def test_the_command_has_octets_of_its_own() -> None:
    settings = settings_of(
        Start(StartKind.AGE, 5), 7, message_ttl=9, values=(b"", b"red"), takes_unfiltered=True, has_key_order=True
    )
    batch = Batch(5, "n1", 1, 1, 0, [OpenCursor(CURSOR, settings)])
    data = encode_batch(batch)
    assert decode_batch(data, AddressBook()) == batch
    assert data[0] == VERSION_WITH_STREAMS
    assert encode_batch(decode_batch(data, AddressBook())) == data
    for size in range(1, len(data)):
        with pytest.raises(Malformed):
            decode_batch(data[:size], AddressBook())


def test_settings_of_a_newer_version_are_refused() -> None:
    data = bytearray(encode_batch(Batch(5, "n1", 1, 1, 0, [OpenCursor(CURSOR, settings_of())])))
    at = data.rindex(STREAM.to_bytes(8, "big")) - 1
    assert data[at] == 1
    data[at] = 2
    with pytest.raises(Malformed, match="a queue over a stream of version 2"):
        decode_batch(bytes(data), AddressBook())


def test_that_messages_expire_goes_by_the_ttl_alone_while_there_are_none() -> None:
    """An image says it, and a member of a version before never sets it again: what comes is not added."""
    group, node = one_cursor(b"a", message_ttl=100)
    queue = cursor_of(group.members[0])
    node.attach(CURSOR)
    assert (queue.ready.count, queue.may_expire) == (0, True)
    group.now += 1000
    group.lead()
    queue.due_without_delivery_owners(group.now)
    assert queue.drop_expired(10, group.now) == 10
    assert queue.may_expire
    queue.apply_settings(settings_of())
    assert not queue.may_expire


def test_a_time_that_is_watched_and_is_none_any_more_changes_no_turns() -> None:
    """A member that comes from a checkpoint watches what is due, and others what was due before the stream was cut."""
    group, node = one_stream(StreamSettings(max_age=1_000), members=2)
    first, second = group.members
    publish(group, b"0")
    node.send(OpenCursor(CURSOR, settings_of(has_key_order=True)))
    node.attach(CURSOR)
    node.attach(CURSOR)
    for body in (b"1", b"2"):
        group.now += 400
        publish(group, body)
    was_due = first.machine.next_deadline()
    assert was_due is not None
    node.send(Trim(STREAM, 1))
    second.checkpoint()
    second.restart(group.log)
    due = second.machine.next_deadline()
    assert first.machine.next_deadline() == was_due
    assert due is not None
    assert due > was_due
    group.now = was_due
    group.lead()
    assert [len(cursor_of(each).dispatcher.in_line()) for each in group.members] == [2, 2]
    assert digest_of(first.machine) == digest_of(second.machine)
