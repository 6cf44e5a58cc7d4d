"""What TLS options may not be together, and what they mean left out."""

import pytest

from proxy.config import parse

FILES = ["--tls-cert", __file__, "--tls-key", __file__]


def test_without_a_certificate_there_is_no_tls() -> None:
    tls = parse([]).tls
    assert (tls.cert, tls.files, tls.secure) == ("", (), None)


def test_with_one_clients_need_one_too_and_the_port_takes_both_kinds() -> None:
    tls = parse([*FILES, "--tls-ca", __file__]).tls
    assert (tls.client_auth, tls.min_version, tls.listen) == ("need", "1.2", "detect")
    assert tls.files == (__file__, __file__, __file__)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (FILES, "--tls-client-auth need needs --tls-ca"),
        ([*FILES, "--tls-client-auth", "want"], "--tls-client-auth want needs --tls-ca"),
        (
            [*FILES, "--tls-client-auth", "none", "--x509-super-user", "CN=a"],
            "--x509-super-user needs clients with certificates",
        ),
    ],
)
def test_what_does_not_go_together(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_without_certificates_of_clients_no_authority_is_needed() -> None:
    assert parse([*FILES, "--tls-client-auth", "none"]).tls.ca == ""
