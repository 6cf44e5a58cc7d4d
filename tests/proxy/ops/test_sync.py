"""sync: the path comes back, even a null one, and nothing else happens."""

import pytest

from codec.jute import NULL, pack_string
from proxy.ops.sync import SYNC
from tests.proxy.ops.room import room


@pytest.mark.parametrize("raw", [pack_string("/a"), pack_string(""), NULL])
def test_the_path_comes_back(raw: bytes) -> None:
    proxy = room()
    draft = proxy.batch(1).draft
    path, end = SYNC.decode(b"head" + raw, 4)
    assert end == 4 + len(raw)
    assert SYNC.reply(SYNC.apply(draft, None, path), 7) == raw  # type: ignore[arg-type]
    assert draft.footprint == []
