"""docs/traffic.md has the columns of the table and its views, as the code describes them."""

import inspect
import re

from pipeline.traffic.table import TrafficRow
from pipeline.traffic.views import VIEWS
from tests.parts import check_part


def test_the_page_has_each_column() -> None:
    described = re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(TrafficRow), re.MULTILINE)
    assert tuple(name for name, _ in described) == TrafficRow._fields
    check_part("docs/traffic.md", "columns", (f"* `{name}`: {text}" for name, text in described))


def test_the_page_has_each_view() -> None:
    check_part("docs/traffic.md", "views", (f"* `{view.name}`: {view.about}" for view in VIEWS))
