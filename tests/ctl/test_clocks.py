"""The clocks of the proxies' hosts, by the dates of their admin ports."""

import socket
import time
from contextlib import AbstractContextManager
from typing import ClassVar

import pytest
from typing_extensions import override

from ctl.clocks import ahead
from ctl.history import _shown_clock
from schema.record import Home
from tests.ctl.ports import AdminPort, admin_port

_HERE = socket.gethostname()


class Admin(AdminPort):
    """An admin port whose host has another clock."""

    offset: ClassVar[float] = 0.0
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/live" else 404)
        self.end_headers()

    @override
    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(time.time() + self.offset)


def _admin(offset: float, status: int = 200) -> AbstractContextManager[str]:
    return admin_port(type("Admin", (Admin,), {"offset": offset, "status": status}))


def test_each_clock_is_compared_and_what_is_unknown_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with _admin(0) as right, _admin(3600) as hasty, _admin(-7200, status=503) as late:
        found = ahead(
            {
                "right": Home(_HERE, "", right),
                "hasty": Home(_HERE, "", hasty),
                "late": Home(_HERE, "", late),
                "elsewhere": Home("elsewhere", "", right),
                "none": Home(_HERE),
            }
        )
    assert "run this command there" in str(found.pop("elsewhere"))
    assert found.pop("none") == "it has no admin port"
    assert [round(float(each) / 100) for each in found.values()] == [0, 36, -72]


def test_an_admin_port_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (reason,) = ahead({"a": Home(_HERE, "", f"http://127.0.0.1:{port}")}).values()
    assert "does not answer" in str(reason)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "-"), (0.4, "agrees"), (3600.2, "+3600 s"), (-5.0, "-5 s")]
)
def test_the_column_of_proxies(seconds: float | None, shown: str) -> None:
    assert _shown_clock(seconds) == shown
