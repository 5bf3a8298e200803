"""Background: jobs in slices, fair between jobs, ended by the pace."""

from __future__ import annotations

from queues.background import PATIENCE_MS, Background, Job


class Slices:
    """So many slices a turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = 0

    def start(self) -> None:
        self._left = self._most

    def goes_on(self) -> bool:
        self._left -= 1
        return self._left > 0


def job(done: list[str], name: str, slices: int) -> Job:
    left = [slices]

    def run(now: int) -> bool:
        done.append(f"{name}@{now}")
        left[0] -= 1
        return left[0] > 0

    return run


def test_jobs_take_turns_and_the_pace_ends_a_turn() -> None:
    done: list[str] = []
    background = Background(Slices(3))
    background.add(job(done, "a", 3))
    background.add(job(done, "b", 1))
    background.work(1)
    assert done == ["a@1", "b@1", "a@1"]
    assert len(background.jobs) == 1
    background.work(2)
    assert done[3:] == ["a@2"]
    assert not background.jobs
    background.work(3)
    assert len(done) == 4


def test_without_a_pace_everything_is_done() -> None:
    done: list[str] = []
    background = Background()
    background.add(job(done, "a", 1000))
    background.work(1)
    assert len(done) == 1000


def test_a_removed_job_does_not_go_on() -> None:
    done: list[str] = []
    background = Background(Slices(1))
    first = job(done, "a", 3)
    background.add(first)
    background.work(1)
    background.remove(first)
    background.remove(first)
    background.work(2)
    assert done == ["a@1"]


def test_the_newest_job_may_have_slices_before_the_end_of_a_turn_but_few() -> None:
    background = Background()
    done: list[str] = []
    background.add(lambda now: done.append("old") is not None)

    def newest(now: int) -> bool:
        done.append("newest")
        assert not background.run_newest(now), "a slice runs no other"
        return len(done) < 1000

    background.add(newest, may_come_first=True)
    while background.run_newest(0):
        pass
    assert 0 < len(done) < 100
    assert set(done) == {"newest"}


def test_who_asks_in_each_of_many_turns_finds_what_the_newest_has_brought() -> None:
    """All is done in the turns that ask for it, so that there is nothing left at their ends."""
    background = Background()
    done: list[str] = []
    for turn in range(100):
        background.add(job(done, str(turn), 1), may_come_first=True)
        assert background.run_newest(turn)
        background.chain(False)
    assert len(done) == 100


def test_only_a_job_that_may_comes_first() -> None:
    background = Background()
    done: list[str] = []
    background.add(job(done, "first", 2), may_come_first=True)
    background.add(job(done, "other", 1))
    assert background.run_newest(1)
    assert done == ["first@1"]
    background.work(2)
    background.add(job(done, "late", 1))
    assert not background.run_newest(3), "what may come first is over"


def test_who_asks_in_the_next_turn_finds_what_the_newest_have_brought_whatever_else_there_is() -> None:
    """A disk that is slow, or another process, may take all of a turn's time."""
    background = Background(Slices(1))
    done: list[str] = []
    for number in range(3):
        background.add(job(done, f"old {number}", 9))
    background.add(job(done, "a", 1), may_come_first=True)
    background.add(job(done, "beside", 9))
    background.add(job(done, "b", 2), may_come_first=True)
    background.work(1)
    assert done == ["a@1", "b@1", "old 0@1"]
    background.work(2)
    assert done[3:] == ["old 1@2"]


def test_very_many_that_may_come_first_do_not_run_in_one_turn() -> None:
    background = Background(Slices(1))
    done: list[str] = []
    for number in range(1000):
        background.add(job(done, str(number), 1), may_come_first=True)
    background.work(1)
    assert len(done) < 100
    turns = 1
    while background.jobs:
        background.work(1)
        turns += 1
    assert done == [f"{number}@1" for number in range(1000)], "in the order in which they came"
    assert turns > 900


def test_who_comes_first_again_and_again_leaves_others_their_turns() -> None:
    """A queue that hands out a backlog adds its job in each of its slices."""
    background = Background(Slices(5))
    done: list[str] = []

    def hands_out(now: int) -> bool:
        done.append("q")
        background.add(hands_out, may_come_first=True)
        return False

    def looks(now: int) -> bool:
        done.append("p")
        background.add(looks)
        return False

    background.add(hands_out, may_come_first=True)
    background.add(looks)
    background.add(job(done, "old", 99))
    for _ in range(30):
        background.work(1)
    counts = [sum(each.startswith(name) for each in done) for name in ("q", "p", "old")]
    assert max(counts) < 2 * min(counts)


def test_what_the_last_slice_of_a_turn_brings_is_found_in_the_next() -> None:
    background = Background(Slices(1))
    done: list[str] = []

    def refuses(now: int) -> bool:
        background.add(job(done, "letters", 1), may_come_first=True)
        return False

    background.add(refuses)
    background.add(job(done, "old", 9))
    background.work(1)
    background.add(job(done, "beside", 1))
    assert background.run_newest(2)
    assert done == ["letters@2"]


def test_what_a_slice_adds_has_its_turn() -> None:
    background = Background(Slices(1))
    done: list[str] = []

    def adds(now: int) -> bool:
        background.add(job(done, "added", 1), may_come_first=True)
        background.add(job(done, "beside", 1))
        return False

    background.add(adds, may_come_first=True)
    assert background.run_newest(1)
    assert background.run_newest(2)
    assert done == ["added@2"]
    background.add(adds, may_come_first=True)
    for _ in range(5):
        background.work(3)
    assert sorted(done[1:]) == ["added@3", "beside@3", "beside@3"]
    assert not background.jobs


def patient(background: Background, done: list[str], name: str, slices: int) -> None:
    """A request that came in the turn before."""
    background.set_patience(Slices(2))
    background.patient().add(job(done, name, slices))
    background.work(0)
    assert not done, "the turn in which it came has been lengthened by reading it"


def test_those_that_may_wait_have_less_of_a_turn() -> None:
    done: list[str] = []
    background = Background()
    patient(background, done, "look", 5)
    background.add(job(done, "act", 4))
    background.work(1)
    assert (done.count("look@1"), done.count("act@1")) == (2, 4)
    background.work(2)
    assert done.count("look@2") == 2


def test_turns_that_follow_upon_each_other_have_it_together() -> None:
    done: list[str] = []
    background = Background()
    patient(background, done, "look", 9)
    background.work(1)
    background.chain(True)
    background.work(1)
    assert done == ["look@1"] * 2
    background.chain(False)
    background.work(1)
    assert done == ["look@1"] * 4


def test_a_turn_that_follows_upon_that_of_a_request_has_none_of_its_slices() -> None:
    done: list[str] = []
    background = Background()
    patient(background, done, "look", 1)
    background.patient().add(job(done, "late", 1))
    background.chain(True)
    background.work(1)
    assert not done
    background.chain(False)
    background.work(2)
    assert sorted(done) == ["late@2", "look@2"]


def test_who_has_waited_long_has_the_share_of_others() -> None:
    done: list[str] = []
    background = Background()
    patient(background, done, "look", 1000)
    background.work(1)
    background.work(PATIENCE_MS - 1)
    assert len(done) == 4
    background.work(PATIENCE_MS)
    assert len(done) == 1000


def test_a_request_grows_old_from_its_first_turn_on_however_often_it_has_waited_for_others() -> None:
    done: list[str] = []
    background = Background()
    background.set_patience(Slices(2))
    request = background.patient()
    request.add(job(done, "first", 1))
    background.work(0)
    background.work(1)
    request.add(job(done, "then", 100))  # what it waited for has come
    background.work(1 + PATIENCE_MS)
    assert len(done) == 101
