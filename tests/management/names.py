"""Names that JSON, paths, patterns and UTF-8 may stumble over. None has line breaks: declarations drop them."""

from __future__ import annotations

NAMES = ["a", "/", "%2F", "~", "a+b c", "é\U0001f600", "\udcff\udc80", '"\\', "\x00\t", "<script>", "n" * 255]
