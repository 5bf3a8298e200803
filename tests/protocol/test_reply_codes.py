"""constants.py: what the reply codes mean, and texts that fit a short string."""

from __future__ import annotations

from amqp_broker.protocol import constants


def test_a_reply_text_fits_a_short_string() -> None:
    text = constants.reply_text(404, "no queue 'é" + "é" * 200 + "'")
    assert text.startswith("NOT_FOUND - no queue 'éé")
    assert len(text.encode()) in (254, 255)
    assert constants.reply_text(404, "no queue 'q' in vhost '/'") == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert constants.reply_text(299, "odd") == "CODE 299 - odd"
    surrogates = constants.reply_text(404, "\udcff" * 300)
    assert len(surrogates.encode("utf-8", "surrogateescape")) == 255


def test_every_reply_code_is_soft_or_hard_but_success() -> None:
    for code in constants.ReplyCode:
        assert code.is_soft + code.is_hard == (code != 200)
    soft = [int(code) for code in constants.ReplyCode if code.is_soft]
    assert soft == [311, 312, 313, 403, 404, 405, 406]
