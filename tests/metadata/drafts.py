"""Drafts of the metadata, made in one go."""

from __future__ import annotations

from amqp_broker.metadata.metadata import Metadata


def draft_of(metadata: Metadata) -> Metadata:
    draft = Metadata()
    for _ in metadata.drafting(draft):
        pass
    return draft
