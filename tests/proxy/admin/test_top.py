"""The busiest paths as a document, as lines of the log, and as metrics."""

from codec.client import Request, get, packet, set_data
from proxy.admin.facts import Facts
from proxy.admin.prometheus import Exposition
from proxy.admin.top import document, lines
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.replies import NARROW
from proxy.frontend.sampling import Sampling
from proxy.options.top import TopOptions
from tests.proxy.admin.subjects import subject_of


def _sampling(sample: int = 1, rows: int = 20) -> Sampling:
    options = TopOptions(sample=sample, depth=3, window=60, log=0, rows=rows)
    return Sampling(options, lambda bits: 0, lambda: 1.0)


def _look(sampling: Sampling, *requests: Request[object]) -> None:
    sampling.look(ClientInfo("10.0.0.1"), NARROW, [packet(1, each)[4:] for each in requests], 0)


def test_a_document() -> None:
    sampling = _sampling()
    _look(sampling, get("/a"), get("/a"), set_data("/b", b""))
    found = document(sampling)
    rates = {"reads": 2.02, "writes": 0.0}
    assert found["paths"][0] == {"path": "/a", **rates}
    assert found["operations"][0] == {"operation": "getData", "path": "/a", **rates}
    both = {"client": "10.0.0.1", "reads": 2.02, "writes": 1.01}
    assert found["sessions"] == [{"session": "0x0", "path": "/a", **both}]
    assert found["clients"] == [both]
    assert (found["one_in"], found["window_seconds"]) == (1, 60)
    assert len(document(sampling, 1)["paths"]) == 1


def test_lines() -> None:
    sampling = _sampling(rows=1)
    assert lines(sampling) == ["the paths read most: none", "the paths written most: none"]
    _look(sampling, get("/a"), get("/a"), get("/c"), set_data("/b", b""))
    assert lines(sampling) == ["the paths read most: /a 2.0/s", "the paths written most: /b 1.0/s"]


def test_metrics_have_ten_values_of_a_label_at_most() -> None:
    sampling = _sampling()
    _look(sampling, *(get(f"/{number}") for number in range(100)), set_data("/often", b""), get("/often"))
    text = Exposition(Facts(subject_of(sampling=sampling))).text().decode()
    values = [line for line in text.splitlines() if line.startswith("zketcd_top_path_requests_per_second{")]
    assert len(values) == 20
    assert any('kind="write",path="/often"' in line for line in values)
    off = Exposition(Facts(subject_of(sampling=_sampling(sample=0)))).text().decode()
    assert "zketcd_top" not in off
