"""What the data source says to options that do not go with how it is used."""

from __future__ import annotations

import pytest

from spark_connector.data_source import AmqpDataSource
from spark_connector.errors import OptionError

STREAM = {"queue": "q", "group": "g"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "option 'startingOffsets' cannot be 'latest' with spark.readStream: a stream"),
        ({"startingoffsets": "7"}, "option 'startingOffsets' cannot be '7' with spark.readStream"),
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is for spark.read: a stream has no end"),
        ({"mode": "staged", "stagingDir": "s", "startingOffsets": "1"}, "cannot be '1' with spark.readStream"),
        ({"mode": "browse"}, "option 'mode' cannot be 'browse' with spark.readStream"),
    ],
)
def test_a_stream_has_neither_another_start_nor_an_end(options: dict[str, str], said: str) -> None:
    source = AmqpDataSource({**STREAM, **options})
    with pytest.raises(OptionError) as caught:
        source.streamReader(source.schema())
    assert said in str(caught.value)


def test_a_stream_may_say_that_it_begins_with_the_oldest() -> None:
    source = AmqpDataSource({**STREAM, "startingOffsets": "Earliest"})
    assert source.streamReader(source.schema()) is not None


def test_a_batch_does_not_lease() -> None:
    source = AmqpDataSource({"queue": "q", "mode": "lease"})
    with pytest.raises(OptionError, match=r"option 'mode' cannot be 'lease' with spark\.read"):
        source.reader(source.schema())
