"""Follows the changes of a tree, each once, whatever breaks: python -m examples.changes http://127.0.0.1:8080"""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from time import sleep
from typing import Any


def changes(url: str, query: str = "path=/") -> Iterator[dict[str, Any]]:
    """The changes from now on. `url`: of a proxy's admin port, or of what balances several."""
    since = ""
    while True:
        try:
            with urllib.request.urlopen(f"{url}/changes?{query}{since}", timeout=60) as lines:
                for line in map(json.loads, lines):
                    since = f"&since={line['id']}"
                    if "path" in line:
                        yield line
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 409:
                raise  # 410: too old, read the tree again; others: the request is wrong
        except (OSError, HTTPException, json.JSONDecodeError):
            pass  # continue with the last id
        sleep(1)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python -m examples.changes URL [QUERY]")
    for change in changes(*sys.argv[1:]):
        print(change["zxid"], change["change"], change["path"], flush=True)
