"""The rows and columns that a program asks for."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources.selection import Selection
from pipeline.table import ZNODES

PATHS = st.text("/a-\u00e9\U0001f600", max_size=4).map(lambda text: f"/{text}")
_ONLY_PATHS = pa.schema([ZNODES.field("path")])


@given(st.lists(PATHS, min_size=1), PATHS)
def test_a_page_that_may_be_skipped_has_no_wanted_path(paths: list[str], subtree: str) -> None:
    selection = Selection(subtree=subtree)
    wanted = [path for path in paths if subtree == "/" or path == subtree or path.startswith(f"{subtree}/")]
    batch = pa.RecordBatch.from_arrays([pa.array(paths)], schema=_ONLY_PATHS)
    assert selection.of(batch).column(0).to_pylist() == wanted
    ordered = sorted(paths, key=str.encode)
    assert selection.may_match(ordered[0], ordered[-1]) or not wanted
