"""Headers by which requests are refused."""

from console.people.guard import HEADER, Kind, refusal
from tests.table import one_by_one

_OWN = {"Host": "localhost:8080", HEADER: "1"}
_LINKED = {**_OWN, "Sec-Fetch-Site": "cross-site"}


@one_by_one(
    ("headers", "kind", "words"),
    [
        (_OWN, Kind.API, ""),
        ({**_OWN, "Origin": "http://localhost:8080"}, Kind.API, ""),
        ({**_OWN, "Sec-Fetch-Site": "same-origin"}, Kind.API, ""),
        ({**_OWN, "Origin": "http://localhost:8081"}, Kind.API, "another origin"),
        ({**_OWN, "Origin": "null"}, Kind.API, "another origin"),
        ({**_OWN, "Origin": "http://evil.example"}, Kind.API, "another origin"),
        (_LINKED, Kind.API, "another site"),
        ({**_OWN, "Sec-Fetch-Site": "same-site"}, Kind.API, "another site"),
        ({**_OWN, "Host": "evil.example"}, Kind.API, "only on localhost"),
        ({**_OWN, "Host": "127.0.0.1.evil.example:8080"}, Kind.API, "only on localhost"),
        ({**_OWN, "Host": ""}, Kind.API, "only on localhost"),
        ({**_OWN, "Host": "[::1]:8080"}, Kind.API, ""),
        ({**_OWN, "Host": "[::1]"}, Kind.API, ""),
        ({**_OWN, "Host": "127.0.0.1"}, Kind.API, ""),
        # Only requests to the API have the header.
        ({"Host": "localhost"}, Kind.API, HEADER),
        ({"Host": "localhost"}, Kind.DATA, ""),
        ({"Host": "localhost"}, Kind.PAGE, ""),
        # The page may be linked to, but not its data.
        (_LINKED, Kind.PAGE, ""),
        (_LINKED, Kind.DATA, "another site"),
        ({**_LINKED, "Host": "evil.example"}, Kind.PAGE, "only on localhost"),
    ],
)
def test_what_another_site_may_not(headers: dict[str, str], kind: Kind, words: str) -> None:
    found = refusal(headers, kind, needs_login=False)
    assert words in found
    assert bool(found) is bool(words)


def test_with_logins_any_name_may_be_the_proxys() -> None:
    named = {**_OWN, "Host": "zketcd.example", "Origin": "https://zketcd.example"}
    assert not refusal(named, Kind.API, needs_login=True)
