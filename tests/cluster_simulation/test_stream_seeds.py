"""Runs of a cluster with publishers and readers of streams, each in another world; and that they notice broken rules.

The campaign is `-m long`, five hundred seeds of four times the length.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster_simulation import broken_stream_rules as rules
from tests.cluster_simulation.cluster_world import SECOND
from tests.cluster_simulation.seeds import failures_of
from tests.cluster_simulation.stream_clients import StreamPublisher
from tests.cluster_simulation.stream_model import Published
from tests.cluster_simulation.stream_weather import StreamWeather
from tests.cluster_simulation.test_cluster_bites import Rule, check_noticed

SEEDS = 8
#: More of them, for whom it is enough that nothing is violated: up to this one, so many in a test.
ALL_SEEDS = 200
AT_ONCE = 24
MANY_SEEDS = 500
SECONDS = 0.5
#: Messages of one key, of which each is handed out when the one before is settled.
SAME_KEY = 60

_REPLAY = "replay one with: python -m tests.simulation --cluster 3 --seed N --seconds S --weather streams --trace"


def test_no_seed_finds_a_violation_and_runs_see_what_they_are_for() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("streams", range(1, SEEDS + 1), 3, SECONDS, counts), _REPLAY
    for what in (
        "crashes", "installs", "known sequences", "sequences again", "reads from an offset", "reads from first",
        "reads from last", "reads from next", "reads from 1s", "digests", "cursor returns", "placed entries cut",
        "handings after a rest", "epochs with positions", "copied",
    ):  # fmt: skip
        assert counts[what] > 0, what
    assert counts["cursor deliveries"] > 1_400
    assert counts["handings in order of a key"] > 800
    assert counts["confirmed"] > 1_700
    assert counts["read"] > 5_700
    assert counts["read in groups"] > 1_700
    assert counts["came again"] > 170
    assert counts["positions stored"] > 55
    assert counts["placed chunks applied"] > 570
    assert counts["entries put together"] > 8


@pytest.mark.parametrize("first", range(SEEDS + 1, ALL_SEEDS + 1, AT_ONCE))
def test_no_other_seed_finds_one(first: int) -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("streams", range(first, first + AT_ONCE), 3, SECONDS, counts), _REPLAY
    assert counts["confirmed"] > 100 * AT_ONCE
    assert counts["read"] > 300 * AT_ONCE


def test_who_reads_pages_that_rot_gets_what_is_there() -> None:
    counts: Counter[str] = Counter()
    assert not failures_of("rot", range(1, 5), 3, SECONDS / 2, counts), _REPLAY.replace("streams", "rot")
    assert counts["damaged"] >= counts["damaged when read"] > 10


def test_a_seed_of_a_node_that_is_ready_while_it_takes_a_state() -> None:
    """It took the files of the streams that were on their way for nobody's."""
    assert not failures_of("streams", range(225, 226), 3, 1.0), _REPLAY


@pytest.mark.long
def test_a_seed_of_a_state_that_was_larger_than_what_a_link_may_have_on_its_way() -> None:
    """An error of the network: it ended the link each time that the state was sent."""
    assert not failures_of("streams", range(70_007, 70_008), 3, 4.0), _REPLAY


@pytest.mark.long
def test_a_seed_of_a_publish_that_came_when_all_was_said_to_be_copied() -> None:
    """An error of the simulation: a node had taken it that had no link yet, for a client that did not wait for it."""
    assert not failures_of("streams", range(100_059, 100_060), 3, 1.0), _REPLAY


@pytest.mark.long
def test_a_seed_of_a_node_that_tells_late_of_a_message_that_came_back_since() -> None:
    """An error of the model: it held the rest of the later return against the earlier delivery."""
    assert not failures_of("streams", range(100_045, 100_046), 3, 1.0), _REPLAY


@pytest.mark.long
def test_a_seed_of_a_member_that_started_again_and_watched_another_time() -> None:
    """The others let consumers take turns when nothing was due any more, and nothing was there to be handed out."""
    assert not failures_of("streams", range(7, 8), 3, 4.0), _REPLAY


def test_a_queue_with_key_order_drains_as_soon_as_it_is_answered() -> None:
    """An error of the simulation: it acknowledged what had come ten times a second, a message of each key. Seed 19, at
    82c8d048: 642 messages of a key were more than a minute has looks for."""
    world = StreamWeather(1, 3)
    world._begin()
    publisher = StreamPublisher("publishes", world)
    world.wait_for(publisher.come, "who publishes is let in")
    for _ in range(SAME_KEY):
        number = world.next_message()
        message = Published(number, world.keyed, b"%d:" % number)
        world.stream_model.messages[number] = message
        publisher._put(message)
    world.wait_for(lambda: publisher.is_done, "everything is confirmed")
    began = world.time
    world._drain_cursors()
    assert world.counts["cursor deliveries"] == 3 * SAME_KEY  # all, by-key, late
    assert world.time - began < 2 * SECOND, world.time - began


@pytest.mark.parametrize(
    ("rule", "weather", "seed"),
    [
        (rules.producers_are_forgotten, "streams", 14),
        (rules.an_image_has_no_producers, "streams", 1),
        (rules.an_image_has_another_tail, "streams", 1),
        (rules.pages_are_not_read_again, "streams", 1),
        (rules.nothing_is_too_old, "streams", 4),
        (rules.what_is_newest_goes, "streams", 1),
        (rules.the_own_clock_says_what_is_old, "streams", 22),
        (rules.positions_are_what_was_read, "streams", 21),
        (rules.what_was_given_before_is_not_known, "streams", 6),
        (rules.a_partition_is_given_to_nobody, "streams", 6),
        (rules.places_are_named_before_their_sync, "streams-power", 6),
        (rules.places_are_not_synced, "streams", 1),
        # Where seldom: it took sixty seeds.
        pytest.param(rules.places_of_cut_entries_are_given_up_at_once, "streams", 1, marks=pytest.mark.long),
        (rules.places_go_with_their_pages, "streams-places", 11),
        (rules.positions_are_forgotten_at_a_start, "streams-power", 6),
        (rules.positions_do_not_follow, "streams", 2),
        (rules.a_stream_does_not_know_what_a_transaction_has_given_it, "streams-power", 11),
        (rules.nothing_rests, "streams", 1),
        (rules.an_image_has_not_what_rests, "streams-install", 15),
        (rules.keys_have_no_order, "streams-clock", 2),
        (rules.an_image_has_not_what_came_back, "streams-leader", 1),
        (rules.an_image_has_another_place, "streams", 1),
        (rules.nothing_has_the_value_that_is_wanted, "streams-clock", 4),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_rule_is_noticed(rule: Rule, weather: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_noticed(rule, weather, seed, monkeypatch)


@pytest.mark.long
def test_no_seed_of_many_finds_a_violation() -> None:
    assert not failures_of("streams", range(1, MANY_SEEDS + 1), 3, 2.0), _REPLAY
