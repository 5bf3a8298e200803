"""Another pysyncobj is refused at import, with what to do about it."""

from __future__ import annotations

import pytest
from pysyncobj import SyncObj

from raft.errors import UnsafeEngine
from raft.member import Member
from raft.pinned import DIGESTS, VERSION, check_engine, read_sources
from tests.raft.defects_here import alone


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


def test_every_method_that_is_replaced_is_there_in_the_stock_class() -> None:
    replaced = [name for name in vars(Member) if name.startswith("_SyncObj__")]
    assert len(replaced) > 10
    assert [name for name in replaced if not hasattr(SyncObj, name)] == []


@pytest.mark.parametrize("name", ["addNodeToCluster", "_applyCommand", "transferLeadership", "_SyncObj__loadDumpFile"])
def test_what_is_not_safe_cannot_be_called(name: str) -> None:
    with pytest.raises(RuntimeError, match="not safe"):
        getattr(alone().group().member, name)()
