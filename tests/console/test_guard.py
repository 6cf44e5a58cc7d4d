"""Headers by which requests are refused."""

import pytest

from console.guard import HEADER, Kind, host_of, refusal

_OWN = {"Host": "localhost:8080", HEADER: "1"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ""),
        ({"Origin": "http://localhost:8080"}, ""),
        ({"Sec-Fetch-Site": "same-origin"}, ""),
        ({"Origin": "http://localhost:8081"}, "another origin"),
        ({"Origin": "null"}, "another origin"),
        ({"Origin": "http://evil.example"}, "another origin"),
        ({"Sec-Fetch-Site": "cross-site"}, "another site"),
        ({"Sec-Fetch-Site": "same-site"}, "another site"),
        ({"Host": "evil.example"}, "only on localhost"),
        ({"Host": "127.0.0.1.evil.example:8080"}, "only on localhost"),
        ({"Host": ""}, "only on localhost"),
        ({"Host": "[::1]:8080"}, ""),
        ({"Host": "127.0.0.1"}, ""),
    ],
)
def test_what_another_site_may_not(more: dict[str, str], words: str) -> None:
    found = refusal({**_OWN, **more}, Kind.API, needs_login=False)
    assert words in found
    assert bool(found) is bool(words)


def test_a_request_to_the_api_has_the_header() -> None:
    bare = {"Host": "localhost"}
    assert HEADER in refusal(bare, Kind.API, needs_login=False)
    assert not refusal(bare, Kind.DATA, needs_login=False)
    assert not refusal(bare, Kind.PAGE, needs_login=False)


def test_the_page_may_be_linked_to_but_not_its_data() -> None:
    linked = {**_OWN, "Sec-Fetch-Site": "cross-site"}
    assert not refusal(linked, Kind.PAGE, needs_login=False)
    assert refusal(linked, Kind.DATA, needs_login=False)
    assert refusal({**linked, "Host": "evil.example"}, Kind.PAGE, needs_login=False)


def test_with_logins_any_name_may_be_the_proxys() -> None:
    named = {**_OWN, "Host": "zketcd.example", "Origin": "https://zketcd.example"}
    assert not refusal(named, Kind.API, needs_login=True)


def test_hosts() -> None:
    assert [host_of(each) for each in ("a:1", "a", "[::1]:1", "[::1]")] == ["a", "a", "::1", "::1"]
