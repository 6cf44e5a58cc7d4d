"""DIGEST-MD5: the example of RFC 2831, and what ends an exchange; tests/compat/test_sasl.py has the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.servers.digest_md5 import respond
from proxy.sasl.digest_md5 import DigestMd5, directives, secret
from proxy.sasl.exchange import Failed, Step
from proxy.sasl.principal import Naming

NONCE = "OA6MG9tEQGm2hh"
USERS = {"bob": secret("bob", "word"), "J\u00fcrgen": secret("J\u00fcrgen", "w\u00f6rd\u4f60")}


def exchange() -> DigestMd5:
    return DigestMd5(USERS, NONCE, lambda name: f"<{name}>")


def test_the_example_of_rfc_2831() -> None:
    host = "elwood.innosoft.com"
    server = DigestMd5({"chris": secret("chris", "secret", host)}, NONCE, str, host, "imap")
    challenge = f'realm="{host}",nonce="{NONCE}",charset=utf-8,algorithm=md5-sess'
    assert server.step(b"") == Step(challenge.encode())  # in the form of ZooKeeper's
    response = (
        f'charset=utf-8,username="chris",realm="{host}",nonce="{NONCE}",nc=00000001,cnonce="OA6MHXh6VqTrRk",'
        f'digest-uri="imap/{host}",response=d388dad90d4bbd760a152321f2143af7,qop=auth'
    )
    assert server.step(response.encode()) == Step(b"rspauth=ea40f60335c427b5527b84dbabcdfffd", "chris")


def test_a_client_cannot_choose_its_name() -> None:
    """ZooKeeper 3.9.5 takes the authzid for the name of a user whose realm is not its own (decision 0025)."""
    server = DigestMd5({"bob@X": secret("bob@X", "word")}, NONCE, Naming("HERE").name_of)
    challenge = server.step(b"").token or b""
    assert server.step(respond(challenge, "bob@X", "word", {"authzid": "amy"})).name == "bob@X"


@pytest.mark.parametrize("name", ["bob", "nobody"])
def test_a_wrong_password_fails_and_the_claim_is_known(name: str) -> None:
    server = exchange()
    challenge = server.step(b"").token or b""
    with pytest.raises(Failed) as failed:
        server.step(respond(challenge, name, "wrong"))
    assert failed.value.name == name


def test_an_exchange_is_good_for_one_answer() -> None:
    server = exchange()
    right = respond(server.step(b"").token or b"", "bob", "word")
    assert server.step(right).name
    for token in (right, b""):
        with pytest.raises(Failed, match="end of the exchange"):
            server.step(token)


@given(st.binary(max_size=200))
def test_whatever_comes_is_an_answer_or_a_failure(token: bytes) -> None:
    server = exchange()
    server.step(b"")
    with pytest.raises(Failed):
        server.step(token)


@given(st.dictionaries(st.sampled_from(["username", "realm", "cnonce", "authzid"]), st.binary(max_size=9)))
def test_what_is_quoted_is_read_back(values: dict[str, bytes]) -> None:
    quoted = (
        name.encode() + b' = "' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
        for name, value in values.items()
    )
    assert directives(b" ,\t".join(quoted)) == {name.encode(): value for name, value in values.items()}
