"""A message as exchanges see it: what the tests hand to `matches` and `route` for MessageFacts."""

from __future__ import annotations

import builtins
from collections.abc import Mapping


class Facts:
    """Headers and properties given as tables."""

    def __init__(
        self, headers: Mapping[str, object] | None = None, properties: Mapping[str, object] | None = None
    ) -> None:
        self._headers = headers or {}
        self._properties = properties or {}

    @builtins.property
    def headers(self) -> Mapping[str, object]:
        return self._headers

    def property(self, name: str) -> object | None:
        return self._properties.get(name)
