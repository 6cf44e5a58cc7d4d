"""What only tests ask of etcd, over its JSON gateway: compaction, users, alarms."""

import base64
import json
import urllib.request
from typing import Any


def post(endpoint: str, path: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    """POST to etcd's gateway. Raises urllib.error.HTTPError with etcd's message as its body."""
    request = urllib.request.Request(
        f"{endpoint}/v3/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **({"Authorization": token} if token else {})},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def compact(endpoint: str, revision: int) -> None:
    """Compact at `revision` and wait until it is done."""
    post(endpoint, "kv/compaction", {"revision": revision, "physical": True})


def defragment(endpoint: str) -> None:
    """Give back to the file system what compaction has left free."""
    post(endpoint, "maintenance/defragment", {})


def disarm(endpoint: str) -> None:
    """End all alarms."""
    for alarm in post(endpoint, "maintenance/alarm", {"action": "GET"}).get("alarms", ()):
        post(endpoint, "maintenance/alarm", {**alarm, "action": "DEACTIVATE"})


def enable_authentication(
    endpoint: str, user: str, password: str, key: bytes, range_end: bytes, *, write: bool = True
) -> str:
    """Switch authentication on, with root:root and a user of one range. Returns root's token."""
    for name, secret in (("root", "root"), (user, password)):
        post(endpoint, "auth/user/add", {"name": name, "password": secret})
    post(endpoint, "auth/role/add", {"name": "root"})
    post(endpoint, "auth/user/grant", {"user": "root", "role": "root"})
    post(endpoint, "auth/role/add", {"name": "tenant"})
    grant(endpoint, key, range_end, write=write)
    post(endpoint, "auth/user/grant", {"user": user, "role": "tenant"})
    post(endpoint, "auth/enable", {})
    token: str = post(endpoint, "auth/authenticate", {"name": "root", "password": "root"})["token"]
    return token


def grant(endpoint: str, key: bytes, range_end: bytes, token: str = "", *, write: bool = True) -> None:
    """Let the tenant's role use one more range."""
    permission = {
        "permType": "READWRITE" if write else "READ",
        "key": base64.b64encode(key).decode(),
        "range_end": base64.b64encode(range_end).decode(),
    }
    post(endpoint, "auth/role/grant", {"name": "tenant", "perm": permission}, token)
