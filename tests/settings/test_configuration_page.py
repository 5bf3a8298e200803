"""docs/configuration.md is what `make docs` writes."""

from __future__ import annotations

from pathlib import Path

from amqp_broker.cli.config import render_markdown
from amqp_broker.settings.config import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_markdown(), "run `make docs`"


def test_the_page_has_every_setting() -> None:
    page = render_markdown()
    for each in SETTINGS:
        assert (f"`{each.key}`" in page) is not each.is_hidden
