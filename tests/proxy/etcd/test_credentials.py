"""When a request needs a token, and when its answer says that another one is needed."""

import pytest

from proxy.etcd.credentials import Credentials
from proxy.etcd.failures import STALE_TOKEN, error_for

DENIED = "etcdserver: permission denied"


@pytest.mark.parametrize("message", sorted(STALE_TOKEN))
def test_a_token_that_etcd_does_not_know_any_more(message: str) -> None:
    assert Credentials("me").expired(error_for(message), "token")
    assert not Credentials("").expired(error_for(message), ""), "there is no user"


def test_a_denied_request_needs_a_token_if_it_had_none() -> None:
    """With a client's certificate it counts as made by the user whom that names, if any."""
    mine = Credentials("me")
    assert mine.expired(error_for(DENIED), "")
    assert not mine.expired(error_for(DENIED), "token")
    assert not mine.expired(error_for("etcdserver: request is too large"), "")
    assert not mine.expired(object(), "")


def test_an_etcd_without_authentication_is_not_asked_for_each_request() -> None:
    mine = Credentials("me")
    seen = [mine.incomplete]
    mine.needless = True
    seen.append(mine.incomplete)
    mine.use("")
    seen.append(mine.incomplete)
    mine.use("token")
    seen.append(mine.incomplete)
    assert seen == [True, False, True, False]
    assert not Credentials("").incomplete
