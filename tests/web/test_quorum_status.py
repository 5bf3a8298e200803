"""What members say of a quorum queue, in the words of RabbitMQ 4.2."""

from __future__ import annotations

from amqp_broker.web.endpoints.quorum_queues import status_of
from tests.web.http_client import Http

PATH = "/queues/quorum/%2F/{}/status"


def test_each_member_has_a_row(http: Http) -> None:
    http("PUT", "/queues/%2F/voted", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    message = {"routing_key": "voted", "payload": "x", "payload_encoding": "string", "properties": {}}
    http("POST", "/exchanges/%2F/amq.default/publish", message)
    (row,) = http.get(PATH.format("voted"))
    view = http.get("/v1/quorum-queues/%2F/voted")
    (member,) = view["members"]
    assert list(row) == [
        "Node Name", "Raft State", "Membership", "Last Log Index", "Last Written", "Last Applied", "Commit Index",
        "Snapshot Index", "Term", "Machine Version",
    ]  # fmt: skip
    assert (row["Node Name"], row["Raft State"], row["Membership"]) == (view["leader"], "leader", "voter")
    assert 0 < row["Commit Index"] <= row["Last Written"] <= row["Last Log Index"]
    assert (row["Term"], row["Machine Version"]) == (view["term"], member["level"])
    assert row["Snapshot Index"] <= row["Last Applied"] <= row["Commit Index"]


def test_what_has_no_members_has_none(http: Http) -> None:
    http("PUT", "/queues/%2F/other", {"durable": True, "arguments": {"x-queue-type": "classic"}})
    refused = http("GET", PATH.format("other"))
    assert (refused.status, "queue 'other' in vhost '/' is of type classic" in refused.reason) == (400, True)
    http("DELETE", "/queues/%2F/other")


def test_what_is_not_there_is_not_found(http: Http) -> None:
    assert http("GET", PATH.format("nothing")).status == 404
    assert http("GET", "/queues/quorum/none/voted/status").status == 404


def test_a_member_that_does_not_answer_has_no_figures() -> None:
    """As `quorum.view` tells of one: who it is, and what the leader knows of it."""
    silent = {"node": "n2", "role": "unknown", "is_voter": True, "is_linked": False, "acknowledged_index": 4, "lag": 1}
    row = status_of(silent)
    assert (row.pop("Node Name"), row.pop("Raft State")) == ("n2", "noproc")
    assert set(row.values()) == {""}


def test_one_that_is_no_voter_yet_says_so() -> None:
    assert status_of({"node": "n4", "role": "follower", "is_voter": False, "term": 3})["Membership"] == "promotable"
