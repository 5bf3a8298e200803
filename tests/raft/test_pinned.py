"""Another pysyncobj is refused at import, with what to do about it."""

from __future__ import annotations

import pytest

from raft.errors import UnsafeEngine
from raft.pinned import DIGESTS, VERSION, check_engine, read_sources


def test_the_pinned_one_is_taken() -> None:
    check_engine(VERSION, read_sources())


def test_another_version_is_refused() -> None:
    with pytest.raises(UnsafeEngine, match=r"pysyncobj 0\.3\.18 .* pip install pysyncobj==0\.3\.17"):
        check_engine("0.3.18", read_sources())


@pytest.mark.parametrize("name", DIGESTS)
def test_a_changed_source_is_refused(name: str) -> None:
    sources = read_sources()
    sources[name] += b"\n# a patch\n"
    with pytest.raises(UnsafeEngine, match=rf"pysyncobj/{name}\.py .* --force-reinstall"):
        check_engine(VERSION, sources)


def test_line_ends_do_not_matter() -> None:
    check_engine(VERSION, {name: source.replace(b"\n", b"\r\n") for name, source in read_sources().items()})
