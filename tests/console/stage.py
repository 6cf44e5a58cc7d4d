"""The console in a real browser: one browser, a server without logins, and one with two users."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lab.servers.browser import Browser, Page, browsing
from tests.console.consoles import Place, place
from tests.proxy.test_server import Client

HOSTILE = "<img src=x onerror=document.title='hit'>"
SCRIPT = b"<script>document.title='hit'</script>"


class Stage:
    """The browser, a console without logins, and one with two users."""

    def __init__(self, browser: Browser, console: Place, client: Client, guarded: Place) -> None:
        self.browser = browser
        self.console = console
        self.client = client
        self.guarded = guarded

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.console.port}/console/"

    async def page(self, fragment: str = "") -> Page:
        """A tab that shows the console."""
        page = await self.browser.page()
        await page.open(self.url + fragment)
        await page.until("document.querySelector('[role=tab][aria-selected=true]')")
        return page


async def connected(where: Place, *nodes: tuple[str, bytes]) -> Client:
    """A client that no test's end closes."""
    client = await where.client(*nodes)
    Client.opened.remove(client)
    return client


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """All of it, with some znodes."""
    async with (
        browsing() as browser,
        place(write=True) as console,
        place("amy", "ben", write=True) as guarded,
    ):
        client = await connected(
            console,
            ("/app", b'{"replicas": ["r1", "r2"]}'),
            ("/app/alpha", b"first"),
            ("/app/beta", b"\xff\x00\x01"),
            ("/app/beta/deep", b""),
            (f"/{HOSTILE}", SCRIPT),
            ("/many", b""),
            *((f"/many/{number:04d}", b"") for number in range(450)),
        )
        yield Stage(browser, console, client, guarded)
        await client.close()


async def quiet(page: Page, stage: Stage) -> None:
    """The page has reported nothing, and has sent requests only to its own proxy."""
    assert page.complaints == []
    strangers = [url for url in page.requested if not url.startswith((stage.url, "about:", "data:"))]
    assert strangers == []
    assert await page.run("document.title") != "hit"


def title_of(path: str) -> str:
    """The view of this znode is shown."""
    return f"document.querySelector('.node h2')?.textContent === {json.dumps(path)}"
