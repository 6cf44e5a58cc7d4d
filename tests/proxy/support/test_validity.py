"""The dates of a certificate."""

import datetime
import ssl
from pathlib import Path

import pytest

from lab.servers.tls import Authority
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
