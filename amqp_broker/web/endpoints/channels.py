"""Channels: lists, and one."""

from __future__ import annotations

from amqp_broker.web.answer import Answer
from amqp_broker.web.asked import Asked
from amqp_broker.web.endpoint import Endpoint
from amqp_broker.web.endpoints.lists import show_object, show_objects
from amqp_broker.web.shapes import CHANNEL


def list_channels(asked: Asked) -> Answer:
    return show_objects(asked, CHANNEL)


def show_channel(asked: Asked) -> Answer:
    return show_object(asked, CHANNEL, name=asked.name("channel"))


ENDPOINTS = (
    Endpoint("GET", "/channels", list_channels, refused=(404,)),
    Endpoint("GET", "/vhosts/{vhost}/channels", list_channels),
    Endpoint("GET", "/channels/{channel}", show_channel),
)
