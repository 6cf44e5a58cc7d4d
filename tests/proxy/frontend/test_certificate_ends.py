"""When certificates end, and when that is said."""

import asyncio
import datetime
import logging
from pathlib import Path

import pytest
from typing_extensions import override

from lab.servers.tls import Authority
from proxy.frontend.certificate_ends import Certificate, CertificateEnds, read
from proxy.support.environment import Clock
from tests.proxy.log.proxies import until
from tests.table import one_by_one

_DAY = 86_400
_NOW = 1_800_000_000


def _pem(authority: Authority, *days: float) -> bytes:
    """Certificates that end so many days after now."""
    now = datetime.datetime.fromtimestamp(_NOW, datetime.UTC)
    return b"".join(
        authority.authority.issue_cert(
            "a.example.org",
            not_before=now - datetime.timedelta(days=100),
            not_after=now + datetime.timedelta(days=each),
        )
        .cert_chain_pems[0]
        .bytes()
        for each in days
    )


@pytest.mark.parametrize(
    ("days", "ends"),
    [
        ((30,), 30),
        ((30, 5, 60), 5),
        ((-1, 30), 30),  # nothing that works depends on what has ended
        ((-9, -2), -2),
    ],
)
def test_the_first_end_of_a_file_counts(days: tuple[float, ...], ends: int, tmp_path: Path) -> None:
    file = tmp_path / "some.pem"
    file.write_bytes(b"a comment\n" + _pem(Authority(tmp_path), *days))
    begins = _NOW - 100 * _DAY
    assert read({"--tls-cert": str(file)}, _NOW) == [
        Certificate("--tls-cert", str(file), begins, _NOW + ends * _DAY)
    ]


def test_what_is_no_certificate_is_left_out(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    files = {"--tls-cert": str(damaged), "--tls-ca": str(tmp_path / "none"), "--etcd-ca": ""}
    assert read(files, _NOW) == []


@one_by_one(
    ("life", "left", "soon"),
    [(90, 15, False), (90, 13.9, True), (90, -1, True), (1, 0.3, False), (1, 0.19, True), (3650, 15, False)],
)
def test_it_ends_soon(life: float, left: float, soon: bool) -> None:
    ends = int(_NOW + left * _DAY)
    assert Certificate("", "", int(ends - life * _DAY), ends).ends_soon(_NOW) is soon


class _Moving(Clock):
    """A clock that a test sets."""

    now = float(_NOW)

    @override
    def time(self) -> float:
        return self.now


async def test_it_warns_at_the_start_after_a_change_and_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock = _Moving()
    in_use = [
        Certificate("--tls-cert", "server.pem", 0, _NOW + 36 * 3600),
        Certificate("--tls-ca", "ca.pem", 0, _NOW + 900 * _DAY),
    ]
    looks = 0

    def look() -> list[Certificate]:
        nonlocal looks
        looks += 1
        return list(in_use)

    ends = CertificateEnds(look, clock)
    running = asyncio.create_task(ends.run(0.001))

    async def looked() -> list[str]:
        since = looks
        await until(lambda: looks > since + 2)
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return said

    assert await looked() == [
        "a certificate in server.pem ends on 2027-01-16 20:00 UTC, in 36 hours (--tls-cert):"
        " replace the file, it is read again"
    ]
    assert ends.known == in_use
    assert await looked() == []
    clock.now += _DAY
    (again,) = await looked()
    assert "in 12 hours" in again
    in_use[0] = Certificate("--tls-cert", "server.pem", 0, _NOW + 3 * _DAY)
    (renewed,) = await looked()
    assert "in 2 days" in renewed
    clock.now += 3 * _DAY
    (ended,) = await looked()
    assert "a certificate in server.pem ended on" in ended
    running.cancel()
