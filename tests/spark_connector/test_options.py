"""Options: defaults, aliases, and one clear error that names the option for everything that is wrong."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from spark_connector.errors import OptionError
from spark_connector.options import OPTIONS, Options


def test_defaults_hold_where_nothing_is_said() -> None:
    options = Options.parse({})
    assert options.urls == ("amqp://guest:guest@localhost:5672/%2F",)
    assert (options.max_messages, options.max_bytes, options.poll_timeout) == (250_000, 256 << 20, 0.5)
    assert (options.fail_on_data_loss, options.delivery, options.mode) == (True, "confirm", "auto")


def test_keys_come_in_lower_case_and_under_other_names() -> None:
    options = Options.parse({"maxoffsetspertrigger": "7", "queue": "q", "pollTimeout": "2s"})
    assert (options.max_messages, options.source_queues, options.poll_timeout) == (7, ("q",), 2.0)


def test_what_spark_itself_adds_is_no_unknown_option() -> None:
    assert Options.parse({"checkpointLocation": "/somewhere"}).given == frozenset()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"qeue": "a"}, "option 'qeue' is unknown to format amqp: did you mean 'queue'?"),
        ({"zzz": "a"}, "option 'zzz' is unknown to format amqp: docs/spark.md lists all"),
        ({"maxMessagesPerBatch": "0"}, "option 'maxMessagesPerBatch' cannot be '0': give a whole number >= 1"),
        ({"maxBytesPerBatch": "lots"}, "option 'maxBytesPerBatch' cannot be 'lots': give a size such as"),
        ({"pollTimeout": "1 fortnight"}, "option 'pollTimeout' cannot be '1 fortnight': give a duration"),
        ({"pollTimeout": "6s"}, "option 'pollTimeout' can be 5s at most"),
        ({"delivery": "maybe"}, "option 'delivery' cannot be 'maybe': give one of confirm, transactional"),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss' cannot be 'no': give true or false"),
        ({"queue": "a", "queues": "b"}, "options 'queue' and 'queues' exclude each other"),
        ({"queues": "a,a"}, "option 'queues' cannot be 'a,a': give every name once"),
        ({"uri": "amqp://h/", "port": "1"}, "option 'uri' already says host, port, vhost and tls"),
        ({"uri": "http://h/"}, "option 'uri' is no AMQP URL (scheme 'http')"),
        ({"txnAppId": "a"}, "options 'txnAppId' and 'txnVersion' belong together"),
        ({"txnAppId": "a", "txnVersion": "1"}, "option 'txnAppId' needs delivery=transactional"),
        ({"passwordFile": "/no/such/file"}, "option 'passwordFile': cannot read /no/such/file"),
        ({"maxMessagesPerBatch": "5", "maxOffsetsPerTrigger": "6"}, "is given twice"),
        ({"uri": "amqp://h/", "caFile": "ca.pem"}, "option 'caFile' is for TLS: write amqps:// in 'uri', or tls=true"),
        ({"host": "h", "certFile": "c"}, "option 'certFile' is for TLS"),
        ({"tls": "true", "keyFile": "k"}, "option 'keyFile' is the key of a certificate: give 'certFile' too"),
        ({"mode": "push"}, "option 'mode' cannot be 'push': give one of auto, stream, lease, browse, staged"),
        ({"startingOffsets": '{"q": -1}'}, "option 'startingOffsets' cannot be '{\"q\": -1}': give earliest,"),
        ({"startingOffsets": "{"}, "or a JSON object of these such as"),
        ({"startingTimestamp": "2026-01-31T12:00:00"}, "cannot be '2026-01-31T12:00:00': give a time"),
        ({"startingOffsets": "1", "startingTimestamp": "5"}, "'startingOffsets' and 'startingTimestamp' exclude"),
        ({"holdTime": "1s"}, "option 'holdTime' has to be 10s at least; hold=false"),
        ({"endingOffsets": "-1"}, "option 'endingOffsets' cannot be '-1': give earliest, latest or an offset"),
        ({"startingOffsets": "5", "endingOffsets": "4"}, "option 'startingOffsets' (5) cannot be behind"),
        ({"queues": "a,b", "endingOffsets": "4"}, "option 'endingOffsets' cannot be 4 with several 'queues'"),
    ],
)
def test_what_is_wrong_is_named(written: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.parse(written)
    assert said in str(caught.value)


def test_a_missing_queue_is_named_when_it_is_wanted() -> None:
    with pytest.raises(OptionError, match="option 'queue' is missing"):
        _ = Options.parse({}).source_queues


def test_several_nodes_share_a_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("p w\n")
    options = Options.parse({"uri": "amqp://one/v, amqps://two:99/v", "user": "me", "passwordFile": str(secret)})
    assert options.urls == ("amqp://me:p%20w@one:5672/v", "amqps://me:p%20w@two:99/v")
    monkeypatch.setenv("AMQP_PASSWORD", "from outside")
    assert Options.parse({"host": "h", "tls": "true"}).urls == ("amqps://guest:from%20outside@h:5671/%2F",)


def test_no_password_is_ever_shown() -> None:
    options = Options.parse({"uri": "amqp://me:secret@h/"})
    assert "secret" not in repr(options)
    assert "secret" not in options.where
    with pytest.raises(OptionError) as caught:
        Options.parse({"uri": "ampq://me:secret@h/"})
    assert "secret" not in str(caught.value)


def test_values_survive_pickling() -> None:
    options = Options.parse({"queues": '["a", "b,c"]', "port": "1"})
    again = pickle.loads(pickle.dumps(options))
    assert again == options
    assert again.source_queues == ("a", "b,c")


def test_every_option_is_described() -> None:
    assert all(each.doc and not each.doc.endswith(".") for each in OPTIONS)
    assert len({each.field for each in OPTIONS}) == len(OPTIONS)
