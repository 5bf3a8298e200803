"""What the data source says to options that do not go with how it is used."""

from __future__ import annotations

import pytest

from spark_connector.data_source import AmqpDataSource
from spark_connector.errors import OptionError

LEASE = {"queue": "q", "group": "g", "mode": "lease"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "option 'startingOffsets' cannot be 'latest' with spark.readStream, unless"),
        ({"startingoffsets": "7"}, "option 'startingOffsets' cannot be '7' with spark.readStream"),
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is for spark.read: a stream has no end"),
        ({"mode": "staged", "stagingDir": "s", "startingOffsets": "1"}, "cannot be '1' with spark.readStream"),
        ({"mode": "browse"}, "option 'mode' cannot be 'browse' with spark.readStream"),
    ],
)
def test_a_stream_has_neither_another_start_nor_an_end(options: dict[str, str], said: str) -> None:
    source = AmqpDataSource({**LEASE, **options})
    with pytest.raises(OptionError) as caught:
        source.streamReader(source.schema())
    assert said in str(caught.value)


def test_a_stream_may_say_that_it_begins_with_the_oldest() -> None:
    source = AmqpDataSource({**LEASE, "startingOffsets": "Earliest"})
    assert source.streamReader(source.schema()) is not None


def test_a_batch_does_not_lease() -> None:
    source = AmqpDataSource({"queue": "q", "mode": "lease"})
    with pytest.raises(OptionError, match=r"option 'mode' cannot be 'lease' with spark\.read"):
        source.reader(source.schema())


@pytest.mark.parametrize("option", ["startingTimestamp", "endingTimestamp", "filterValues"])
def test_what_only_streams_have_is_refused_of_others(option: str) -> None:
    source = AmqpDataSource({**LEASE, option: "5"})
    with pytest.raises(OptionError, match=f"option '{option}' is for queues that are streams"):
        source.streamReader(source.schema())


def test_a_query_of_a_stream_has_no_end() -> None:
    source = AmqpDataSource({"queue": "q", "mode": "stream", "endingOffsets": "5"})
    with pytest.raises(OptionError, match=r"are for spark\.read"):
        source.streamReader(source.schema())
