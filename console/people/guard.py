"""Which requests the console accepts, as far as headers say; and the headers of all its answers. Pure.

A page of another site must neither read nor change anything with the browser of an operator:

- Addresses below api/ want the header `X-Zketcd-Console`, which another site's page cannot send: all but
  api/v1/data and api/v1/export, which the page links to.
- At all of these, a request that another site's page has caused is refused. The page may be linked to.
- Without logins only names of the loopback interface are answered, so that no name of an attacker's that
  points to 127.0.0.1 (DNS rebinding) makes a page of theirs the same origin.
"""

from collections.abc import Mapping
from enum import Enum

from proxy.support.addresses import host_of, is_loopback

HEADER = "X-Zketcd-Console"

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors"
    " 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Kind(Enum):
    """What is asked for."""

    PAGE = 0  # the files of the page, which hold nothing of the tree
    DATA = 1  # a download, which the browser fetches without a script
    API = 2


def refusal(headers: Mapping[str, str], kind: Kind, *, needs_login: bool) -> str:
    """Why a request is refused; "" if it is not. `headers` by any case, as aiohttp has them."""
    host = headers.get("Host", "")
    if not needs_login and not is_loopback(host_of(host)):
        return f"this console answers only on localhost, not as {host!r}: give it --console-users"
    if kind is Kind.PAGE:
        return ""
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return "a page of another site may not use the console"
    origin = headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != host:
        return "a page of another origin may not use the console"
    if kind is Kind.API and HEADER not in headers:
        return f"the header {HEADER} is missing"
    return ""
