"""Every merge that changes what is there is news, so that it is kept on disk and told on; a repeated one is none."""

from __future__ import annotations

from glue.model.state import Delete, Set
from tests.model.mergeable.stores import merge, store


def test_a_deletion_of_what_was_known_is_news_once() -> None:
    writer, reader = store(0), store(1)
    touched, _ = writer.write(1, [Set("s/1", ["x"])])
    merge(reader, writer.delta(touched))
    touched, _ = writer.write(2, [Delete("s/1")])
    deletion = writer.delta(touched)
    before = reader.version
    merge(reader, deletion)
    assert reader.version > before
    assert not len(reader)
    before = reader.version
    merge(reader, deletion)
    assert reader.version == before
