"""zoo.cfg: what Java's reader would find in the file, and what becomes of it."""

from pathlib import Path

import pytest

from proxy import zoo_cfg
from proxy.config import OPTIONS
from proxy.options.parser import line_of
from tests.table import one_by_one


def read(text: str, *given: str) -> zoo_cfg.Found:
    return zoo_cfg.read(text, OPTIONS, lambda option: option in given)


@one_by_one(
    ("text", "found"),
    [
        ("tickTime=2000", {"tickTime": "2000"}),
        ("  tickTime = 2000  \n", {"tickTime": "2000"}),
        ("tickTime: 2000", {"tickTime": "2000"}),
        ("tickTime 2000", {"tickTime": "2000"}),
        ("tickTime", {"tickTime": ""}),
        ("# a=1\n! b=2\n\n", {}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2", {"a": "1,2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=\\u0041\\t", {"a=b": "A"}),
        ("server.1=h:2888:3888;2181", {"server.1": "h:2888:3888;2181"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_the_file_is_read_as_java_does(text: str, found: dict[str, str]) -> None:
    assert zoo_cfg.properties(text) == found


@one_by_one(
    ("content", "found"),
    [
        # Bytes of UTF-8 that are NEL or another line of str.splitlines in Latin-1.
        ("# раньше для двух maxClientCnxns=1\ntickTime=2000".encode(), {"tickTime": "2000"}),
        ("dataDir=/Ålesund/x\n".encode(), {"dataDir": "/\xc3\x85lesund/x"}),
        (b"#\x0ba=1\n#\x0cb=1\n#\x1cc=1\n#\x1dd=1\n#\x1ee=1\n#\x85f=1\n", {}),
        (b"a=1\r\nb=2\rc=3\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        (b"a\xa0b=1\nc\x85=\xa02\xa0\n", {"a\xa0b": "1", "c\x85": "\xa02\xa0"}),
        (b"a=1\\\n\x0c 2\\\\\nb=\\\r\n  3", {"a": "12\\", "b": "3"}),
        (b"a=x\\ud83d\\ude00\\:\\q", {"a": "x\U0001f600:q"}),
    ],
)
def test_a_file_has_the_lines_and_characters_of_java(
    tmp_path: Path, content: bytes, found: dict[str, str]
) -> None:
    """As java.util.Properties prints them."""
    file = tmp_path / "zoo.cfg"
    file.write_bytes(content)
    assert zoo_cfg.properties(file.read_text(encoding="latin-1")) == found


def test_an_escape_that_java_refuses() -> None:
    with pytest.raises(ValueError, match=r"^dataDir: \\u12x is no character"):
        zoo_cfg.properties("dataDir=/a\\u12x")


def test_the_line_of_a_setting_is_counted_as_editors_do(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text("# Ålesund\n# для двух\nenforce.auth.enabled=true\n", encoding="utf-8")
    assert line_of(file.read_text(encoding="latin-1"), "enforce.auth.enabled") == 3


@one_by_one(
    ("text", "options"),
    [
        ("clientPort=2182", {"listen": ":2182"}),
        ("clientPort=1\nclientPortAddress=::1", {"listen": "[::1]:1"}),
        ("secureClientPort=1", {"listen": ":1", "listen_tls": "only"}),
        (
            "clientPort=1\nsecureClientPort=2\nsecureClientPortAddress=h",
            {"listen": ":1", "secure_listen": "h:2"},
        ),
        ("server.1=a:1:2;2181\nserver.2=b:1:2;2181", {"listen": ":2181"}),
        ("server.1=a:1:2:observer;127.0.0.1:2181", {"listen": "127.0.0.1:2181"}),
        ("server.1=a:1:2\nclientPort=9", {"listen": ":9"}),
        ("admin.enableServer=false", {"admin_listen": "none"}),
        ("pathStats.sampleRate=0.5", {}),
        ("pathStats.enabled=false\npathStats.delay=1", {"top_sample": "0"}),
        ("pathStats.enabled=true", {"top_log": "300"}),
        (
            "pathStats.enabled=true\npathStats.sampleRate=0.05\npathStats.maxDepth=2\npathStats.delay=1\n"
            "pathStats.topPathMax=7\npathStats.slotDuration=10\npathStats.initialDelay=2",
            {
                "top_sample": "20",
                "top_depth": "2",
                "top_log": "60",
                "top_rows": "7",
                "top_window": "600",
            },
        ),
        ("admin.serverPort=81", {"admin_listen": ":81"}),
        ("maxClientCnxns=0", {"max_client_connections": "0"}),
        ("minSessionTimeout=-1\nmaxSessionTimeout=5", {"max_session_timeout": "5"}),
        ("jute.maxbuffer=0x100000", {"max_frame": "1048576"}),
        ("4lw.commands.whitelist=stat, ruok", {"four_letter_words": "stat, ruok"}),
        ("readonlymode.enabled=TRUE", {"read_only_mode": "on"}),
        ("ssl.keyStore.location=/a.pem\nclientPort=1", {
            "tls_cert": "/a.pem", "tls_key": "/a.pem", "listen": ":1", "listen_tls": "off",
        }),
        ("ssl.trustStore.location=/a\nssl.trustStore.type=pem", {"tls_ca": "/a"}),
        ("ssl.enabledProtocols=TLSv1.3,TLSv1.2,TLSv1", {"tls_min_version": "1.2"}),
        ("ssl.clientAuth=WANT", {"tls_client_auth": "want"}),
    ],
)  # fmt: skip
def test_what_means_the_same_is_used(text: str, options: dict[str, str]) -> None:
    found = read(text)
    assert found.options == options
    assert set(found.origin) == set(options)
    assert found.unknown == ()


@one_by_one(
    ("text", "reason"),
    [
        ("authProvider.1=org.example.Mine", "authProvider.1=org.example.Mine: zketcd has only digest"),
        ("authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "sasl="),
        ("requireClientAuthScheme=sasl", "serves clients without sasl too"),
        ("enforce.auth.enabled=true", "enforce.auth.schemes does not say by what"),
        ("security.auth_to_local=RULE:[1:$1]", "zketcd has no rules for principals"),
        ("letAnySaslUserDoX=x", "NOAUTH where they had access"),
        ("SASLAuthenticationProvider.superPassword=x", "the user super"),
        ("skipACL=yes", "zketcd always checks ACLs"),
        ("pathStats.enabled=true\npathStats.sampleRate=1e-320", "pathStats.sampleRate: "),
        ("DigestAuthenticationProvider.digestAlg=SHA3-256", "SHA1"),
        ("DigestAuthenticationProvider.enabled=false", "digest"),
        ("ssl.keyStore.location=/a.jks", "give --tls-cert and --tls-key"),
        ("ssl.trustStore.location=/a.jks", "give --tls-ca"),
        ("ssl.keyStore.type=JKS", "only PEM"),
        ("ssl.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA", "--tls-ciphers"),
        ("ssl.enabledProtocols=TLSv1", "ssl.enabledProtocols: 'TLSv1' names no version"),
        ("ssl.keyStore.passwordPath=/no/such", "ssl.keyStore.passwordPath: it cannot be read"),
        ("ssl.crl=true", "revoked"),
        ("admin.needClientAuth=true", "admin"),
        ("server.1=a:1:2;1\nserver.2=b:1:2;2", "--listen"),
        ("dynamicConfigFile=/x", "--listen"),
        ("readonlymode.enabled=maybe", "readonlymode.enabled: 'maybe' is neither true nor false"),
    ],
)
def test_what_would_be_dangerous_to_ignore_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        read(text)
    assert reason in str(refused.value)
    for setting, option in (
        ("ssl.keyStore.location", "tls_cert"),
        ("ssl.keyStore.type", "tls_cert"),
        ("ssl.trustStore.location", "tls_ca"),
        ("ssl.ciphersuites", "tls_ciphers"),
        ("dynamicConfigFile", "listen"),
    ):
        if text.startswith(setting):
            read(text, option)  # the option takes its place


def test_harmless_values_of_settings_that_may_be_refused() -> None:
    text = (
        "authProvider.1=org.apache.zookeeper.server.auth.DigestAuthenticationProvider\nskipACL=no\n"
        "enforce.auth.enabled=false\nssl.authProvider=x509\nDigestAuthenticationProvider.digestAlg=sha1\nssl.crl=false"
    )
    assert read(text) == zoo_cfg.NOTHING


def test_what_has_no_meaning_is_named() -> None:
    found = read("server.1=a:1:2\nclientPort=1\nautopurge.purgeInterval=1\ndataDir=/x\nmine=1")
    assert found.ignored == ("server.1", "autopurge.purgeInterval", "dataDir")
    assert found.unknown == ("mine",)


def test_a_password_is_the_first_line_of_its_file_in_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes("\ufeffw\u00f6rd\r\nmore".encode())
    assert read(f"ssl.keyStore.passwordPath={file}").options == {"tls_key_password": "w\u00f6rd"}
