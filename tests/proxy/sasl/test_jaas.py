"""JAAS files, as administrators write them for ZooKeeper."""

import pytest

from proxy.sasl.jaas import Jaas, read
from tests.table import one_by_one

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"


@one_by_one(
    ("text", "passwords"),
    [
        (f'Server {{ {DIGEST} user_bob="word"; }};', {"bob": "word"}),
        (f"Server{{{DIGEST} user_bob=word user_amy='x';}};", {"bob": "word", "amy": "'x'"}),
        (f'/* a\n b */ Server {{ // c\n {DIGEST}\n user_bob = "a\\"b\\\\" # d\n ; }};', {"bob": 'a"b\\'}),
        (f'Client {{ {DIGEST} username="c"; }}; Server {{ {DIGEST} user_a="b"; }};', {"a": "b"}),
        (f'Server {{ {DIGEST} user_a="b"; {DIGEST} user_c="d"; }};', {"a": "b", "c": "d"}),
        (f'Server {{ {DIGEST.replace("required", "REQUIRED")} debug=true user_a="//"; }};', {"a": "//"}),
    ],
)
def test_users_of_digest(text: str, passwords: dict[str, str]) -> None:
    assert read(text, "Server") == Jaas(passwords, "", "")


def test_a_keytab() -> None:
    text = f"""Other {{
        {KERBEROS}
        useKeyTab=true
        keyTab="/etc/zk.keytab"
        storeKey=true
        useTicketCache=false
        principal="zookeeper/host@REALM";
    }};"""
    assert read(text, "Other") == Jaas({}, "/etc/zk.keytab", "zookeeper/host@REALM")


@one_by_one(
    ("text", "said"),
    [
        ("", "no section Server; the sections are: none"),
        (f'Client {{ {DIGEST} user_a="b"; }};', "the sections are: Client"),
        ("Server", "ends within a section"),
        ("Server {", "ends within a section"),
        ("Server }", "'}' is where '{' belongs"),
        (f'Server {{ {DIGEST} user_a="b" }};', "'}' is where an option or ';' belongs"),
        (f'Server {{ {DIGEST} user_a="b; }};', "line 1 is not JAAS"),
        ("Server { org.example.Mine needed; };", "'needed' is none of"),
        ("Server { org.example.Mine required; };", "no login module org.example.Mine"),
        (f"Server {{ {DIGEST}; }};", "no user_NAME and no keyTab"),
        (f"Server {{ {KERBEROS} useTicketCache=true; }};", "useKeyTab=true"),
        (f"Server {{ {KERBEROS} useKeyTab=true keyTab=x; }};", "no principal"),
    ],
)
def test_what_does_not_do(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(text, "Server")
