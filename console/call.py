"""A request to the console, once it is known who asks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from console.logins import Login

Body = dict[str, Any]


class Call(NamedTuple):
    """One request."""

    login: Login
    query: Mapping[str, str]
    values: Mapping[str, Any]  # the JSON of a POST
    address: str  # the browser's
