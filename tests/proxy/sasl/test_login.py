"""Which mechanism a client gets, and what a start says about Kerberos. Exchanges have their own tests."""

import sys

import pytest

from lab.servers import Kdc
from proxy.sasl.digest_md5 import DigestMd5, secret
from proxy.sasl.exchange import Failed
from proxy.sasl.gssapi_server import Credentials, Gssapi, Missing
from proxy.sasl.login import Login
from proxy.sasl.options import SaslSettings
from proxy.sasl.principal import Naming

USERS = {"bob": secret("bob", "word")}


def test_the_first_token_shows_the_mechanism() -> None:
    login = Login(SaslSettings(USERS))
    assert [type(login.begin(token)) for token in (b"", b"ticket")] == [DigestMd5, DigestMd5]
    assert login.threads is None
    login.close()


def test_no_two_nonces_are_equal() -> None:
    login = Login(SaslSettings(USERS))
    challenges = [login.begin(b"").step(b"").token for _ in range(100)]
    assert len(set(challenges)) == 100


def test_without_users_nobody_proves_anything() -> None:
    with pytest.raises(Failed, match="no mechanism"):
        Login(SaslSettings()).begin(b"")


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(Missing, match=r"^--sasl-keytab needs python-gssapi.*make setup-gssapi` installs it$"):
        Login(SaslSettings({}, "/no/such", "zookeeper/h@R"))


def test_with_a_keytab_both_are_there(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gssapi")
    for name, value in kdc.client_environment().items():
        monkeypatch.setenv(name, value)
    keytab = str(kdc.server_keytab)
    login = Login(SaslSettings(USERS, keytab, kdc.service, Naming()))
    assert [type(login.begin(token)) for token in (b"", b"ticket")] == [DigestMd5, Gssapi]
    login.close()
    only = Login(SaslSettings({}, keytab, kdc.service, Naming()))
    assert isinstance(only.begin(b""), Gssapi)
    only.close()
    for file, principal in (("/no/such", kdc.service), (keytab, "zookeeper/elsewhere@R")):
        with pytest.raises(Missing, match=f"^--sasl-keytab {file}: no key of {principal}: ") as missing:
            Credentials(file, principal)
        assert "\n" not in str(missing.value)
