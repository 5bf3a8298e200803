"""AMQP class connection: protocol header, handshake, tuning, virtual host, both close handshakes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import Connection
from tests.conformance.wire_codec import encode_table

Dial = Callable[[], Connection]

LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
)
ALL_CAPABILITIES = {
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
}


@pytest.mark.holds("protocol header: AMQP 0-9-1 -> connection.start")
def test_the_0_9_1_header_is_answered_with_start(dial: Dial) -> None:
    """connection.start names version 0-9, the mechanisms separated by spaces, and en_US."""
    start = dial().start()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split(b" "))
    assert b"en_US" in start.locales.split(b" ")


@pytest.mark.holds("protocol header: AMQP 0-9 (AMQP 1 1 0 9) -> connection.start")
def test_the_0_9_header_is_accepted_too(dial: Dial) -> None:
    """The older header AMQP 1 1 0 9 opens the same dialogue."""
    assert dial().start(b"AMQP\x01\x01\x00\x09").version_minor == 9


@pytest.mark.holds("protocol header: any other -> the supported header, then the end of the transport")
@pytest.mark.parametrize(
    "header",
    [b"HTTP/1.1", b"XXXXXXXX", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x00\x0a\x00"],
)
def test_another_header_is_answered_with_the_supported_one(dial: Dial, header: bytes) -> None:
    """Eight octets that say AMQP 0-9-1, nothing else, and the transport is closed."""
    connection = dial()
    connection.send_octets(header)
    assert connection.read_octets(9) == b"AMQP\x00\x00\x09\x01"


@pytest.mark.holds("connection.start: server_properties carry all nine capabilities, product and version")
def test_server_properties_announce_what_clients_look_for(dial: Dial) -> None:
    """kombu and aiormq choose what they do by these flags and by product and version."""
    properties = dial().start().server_properties
    assert {name for name, flag in properties["capabilities"].items() if flag is True} >= ALL_CAPABILITIES
    assert properties["product"]
    assert properties["version"]


@pytest.mark.holds("connection.start-ok: mechanism AMQPLAIN")
def test_amqplain_logs_in(dial: Dial) -> None:
    """AMQPLAIN's response is a table without its length that holds LOGIN and PASSWORD."""
    connection = dial()
    connection.start()
    table = encode_table({"LOGIN": connection.address.user, "PASSWORD": connection.address.password})
    connection.send_start_ok(mechanism="AMQPLAIN", response=table[4:])
    connection.tune()


@pytest.mark.holds("connection.start-ok: wrong password -> 403 where authentication_failure_close is announced")
@pytest.mark.parametrize("user", ["guest", "nobody-knows-me"])
def test_a_failed_login_is_told(dial: Dial, user: str) -> None:
    """Whether the user or the password is wrong, the text is the same."""
    connection = dial()
    connection.start()
    connection.send_start_ok(user=user, password="wrong")
    connection.expect_close(403, LOGIN_REFUSED.format("PLAIN"))


@pytest.mark.holds("connection.start-ok: AMQPLAIN with a wrong password -> 403 that names AMQPLAIN")
def test_a_failed_amqplain_login_names_its_mechanism(dial: Dial) -> None:
    """The mechanism in the text is the one that was used."""
    connection = dial()
    connection.start()
    response = encode_table({"LOGIN": "guest", "PASSWORD": "wrong"})[4:]
    connection.send_start_ok(mechanism="AMQPLAIN", response=response)
    connection.expect_close(403, LOGIN_REFUSED.format("AMQPLAIN"))


@pytest.mark.holds("connection.start-ok: wrong password without authentication_failure_close -> the transport ends")
def test_a_failed_login_of_an_older_client_ends_the_transport(dial: Dial) -> None:
    """A client that does not know the capability gets no method that it would not expect."""
    connection = dial()
    connection.start()
    connection.send_start_ok(password="wrong", capabilities={})
    connection.expect_end()


@pytest.mark.ours_only("drops the transport after 3 s without a word")
@pytest.mark.holds("connection.start-ok: unknown mechanism -> 503")
def test_an_unknown_mechanism_is_a_503(dial: Dial) -> None:
    """The text names the mechanism that was asked for."""
    connection = dial()
    connection.start()
    connection.send_start_ok(mechanism="MAGIC", response=b"")
    assert "MAGIC" in connection.expect_close(503)


@pytest.mark.ours_only("drops the transport after 3 s without a word")
@pytest.mark.holds("connection.start-ok: malformed response -> connection.close")
@pytest.mark.parametrize(
    ("mechanism", "response"), [("PLAIN", b"xx"), ("PLAIN", b""), ("PLAIN", b"\0guest"), ("AMQPLAIN", b"zz")]
)
def test_a_malformed_response_is_told(dial: Dial, mechanism: str, response: bytes) -> None:
    """Octets that are no credentials get a proper close: a refused login, or a syntax error."""
    connection = dial()
    connection.start()
    connection.send_start_ok(mechanism=mechanism, response=response)
    close = connection.expect("connection.close")
    assert close.reply_code in (403, 501, 502)
    connection.send_method(0, "connection.close-ok")
    connection.expect_end()


@pytest.mark.holds("connection.tune: offers frame_max 131072, channel_max 2047, heartbeat 60")
def test_the_offer_of_tune(dial: Dial) -> None:
    """The figures that stock clients are used to."""
    connection = dial()
    connection.start()
    connection.send_start_ok()
    offer = connection.tune()
    assert (offer.frame_max, offer.channel_max, offer.heartbeat) == (131072, 2047, 60)


@pytest.mark.holds("connection.tune-ok: frame_max 4096 is accepted")
def test_the_smallest_frame_max_is_accepted(dial: Dial) -> None:
    """4096 is the least that the specification allows; both sides keep to it."""
    connection = dial().open(frame_max=4096)
    channel = connection.channel()
    queue = channel.declare(exclusive=True)
    channel.publish("", queue, b"x" * 10_000)
    message = channel.get(queue)
    assert message is not None
    assert message.frame_sizes == [4088, 4088, 1824]


BEYOND = "NOT_ALLOWED - negotiated {} is higher than the maximum allowed value ({})"


@pytest.mark.ours_only("drops the transport after 3 s without a word")
@pytest.mark.holds("connection.tune-ok: frame_max or channel_max beyond the offer, or 0 -> 530")
@pytest.mark.parametrize(
    ("frame_max", "channel_max", "text"),
    [
        (131073, 2047, BEYOND.format("frame_max = 131073", 131072)),
        (0, 2047, BEYOND.format("frame_max = 0 (no limit)", 131072)),
        (131072, 2048, BEYOND.format("channel_max = 2048", 2047)),
        (131072, 0, BEYOND.format("channel_max = 0 (no limit)", 2047)),
    ],
)
def test_tuning_beyond_the_offer_is_a_530(dial: Dial, frame_max: int, channel_max: int, text: str) -> None:
    """A client may lower the offer, not raise it; 0 means no limit, which is higher than any."""
    connection = dial()
    connection.start()
    connection.send_start_ok()
    connection.tune(frame_max=frame_max, channel_max=channel_max)
    connection.expect_close(530, text)


@pytest.mark.ours_only("drops the transport after 3 s without a word")
@pytest.mark.holds("connection.tune-ok: frame_max below the minimum -> 530")
def test_a_frame_max_below_the_minimum_is_a_530(dial: Dial) -> None:
    """Less than 4096 octets is refused."""
    connection = dial()
    connection.start()
    connection.send_start_ok()
    connection.tune(frame_max=4095)
    assert "frame_max = 4095" in connection.expect_close(530)


@pytest.mark.holds("connection.open: missing vhost -> 530")
def test_a_missing_vhost_is_a_530(dial: Dial) -> None:
    """The close blames connection.open and names the vhost."""
    connection = dial()
    connection.start()
    connection.send_start_ok()
    connection.tune()
    connection.send_method(0, "connection.open", virtual_host="nowhere-to-go")
    connection.expect_close(530, "NOT_ALLOWED - vhost nowhere-to-go not found", by="connection.open")


@pytest.mark.ours_only("drops the transport after 3 s without a word")
@pytest.mark.holds("connection: methods out of the handshake's order -> connection.close")
@pytest.mark.parametrize("name", ["connection.open", "connection.tune-ok", "channel.open", "queue.declare"])
def test_a_method_before_its_time_is_told(dial: Dial, name: str) -> None:
    """After connection.start only start-ok makes sense."""
    connection = dial()
    connection.start()
    connection.send_method(0 if name.startswith("connection") else 1, name)
    close = connection.expect("connection.close")
    assert close.reply_code in (503, 504, 505)


@pytest.mark.holds("connection.close: answered with close-ok; everything after it is discarded")
def test_after_the_clients_close_everything_is_discarded(connection: Connection) -> None:
    """Even what would be an error gets no answer, and close-ok is the last word."""
    connection.send_method(0, "connection.close", reply_code=200, reply_text="bye")
    connection.send_method(1, "queue.declare", queue="never-opened")
    connection.expect("connection.close-ok")
    connection.drop()


@pytest.mark.holds("connection.close: a client's close that crosses the broker's is answered with close-ok")
def test_crossing_closes_are_answered(connection: Connection) -> None:
    """The broker has sent its close for a hard error; the client's own close was on its way and still gets
    its answer.
    """
    connection.send_method(5, "queue.declare")
    connection.expect("connection.close")
    connection.send_method(0, "connection.close", reply_code=200, reply_text="bye")
    connection.expect("connection.close-ok")


@pytest.mark.holds("connection.close: after a hard error frames are discarded until close-ok")
def test_after_the_brokers_close_frames_are_discarded(connection: Connection) -> None:
    """Requests that follow the mistake in the same octets have no effect and no answer."""
    connection.send_method(5, "queue.declare")
    connection.send_method(1, "channel.open")
    connection.send_method(1, "queue.declare", queue="")
    connection.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", by="queue.declare")


@pytest.mark.holds("connection.update-secret: answered with update-secret-ok")
def test_update_secret_is_answered(connection: Connection) -> None:
    """The internal user database takes a new secret without complaint."""
    connection.send_method(0, "connection.update-secret", new_secret=b"fresh", reason="rotation")
    connection.expect("connection.update-secret-ok")


@pytest.mark.holds("connection: methods of channels on channel 0 -> 504")
@pytest.mark.parametrize(
    "name", ["channel.open", "queue.declare", "basic.qos", "connection.open", "connection.start-ok"]
)
def test_an_unexpected_method_on_channel_0_is_a_504(connection: Connection, name: str) -> None:
    """Channel 0 speaks of the connection only, and of the handshake only once."""
    connection.send_method(0, name)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    connection.expect_close(504, text, by=name)


@pytest.mark.holds("connection: a connection method on another channel -> 503")
def test_a_connection_method_on_another_channel_is_a_503(connection: Connection) -> None:
    """connection.close belongs on channel 0."""
    channel = connection.channel()
    channel.send("connection.close", reply_code=200)
    connection.expect_close(503, "COMMAND_INVALID - unimplemented method", by="connection.close")


@pytest.mark.holds("connection.close: unacknowledged deliveries return to their queues")
def test_closing_a_connection_requeues(
    connection: Connection, connect: Callable[[], Connection], named: Callable[[str], str]
) -> None:
    """What a connection held unacknowledged is ready again, and marked as redelivered."""
    channel = connection.channel()
    queue = channel.declare(named("queue"))
    connection.fill(queue, b"held")
    assert channel.get(queue, no_ack=False) is not None
    connection.close()
    message = connect().channel().get(queue)
    assert message is not None
    assert (message.body, message.redelivered) == (b"held", True)


@pytest.mark.octets_too_slow
@pytest.mark.holds("connection: a handshake that never goes on is dropped")
def test_a_silent_handshake_is_dropped(dial: Dial) -> None:
    """A transport that says nothing is closed by the broker, after about ten seconds."""
    dial().expect_end(timeout_s=15)
