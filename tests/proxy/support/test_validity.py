"""The dates of a certificate, and which users may read a file."""

import datetime
import ssl
from pathlib import Path

import pytest

from lab.servers.tls import Authority
from proxy.support.files import is_world_readable
from proxy.support.validity import fault_of

_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize(
    ("first", "last", "fault"),
    [
        (_NOW - _DAY, _NOW + _DAY, ""),
        (_NOW - 3 * _DAY, _NOW - _DAY, "it has expired"),
        (_NOW + _DAY, _NOW + 3 * _DAY, "it is not valid yet"),
    ],
)
def test_a_certificate_out_of_its_time(
    first: datetime.datetime, last: datetime.datetime, fault: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    leaf = authority.authority.issue_cert("a.example.org", not_before=first, not_after=last)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
    pair = authority.write("a", chain, leaf.private_key_pem.bytes())
    assert fault_of(str(pair.cert), str(pair.key)) == fault


def test_another_ones_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with pytest.raises(ssl.SSLError):
        fault_of(str(authority.issue("a").cert), str(authority.issue("b").key))


@pytest.mark.parametrize(("mode", "all_read"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)])
def test_the_mode_says_who_reads(tmp_path: Path, mode: int, all_read: bool) -> None:
    file = tmp_path / "users"
    file.touch()
    file.chmod(mode)
    assert is_world_readable(str(file)) == all_read


def test_what_is_no_file_is_no_matter(tmp_path: Path) -> None:
    assert not is_world_readable(str(tmp_path))
    assert not is_world_readable("/dev/null")
    assert not is_world_readable(str(tmp_path / "none"))
