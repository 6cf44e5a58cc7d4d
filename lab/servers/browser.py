"""A headless Chromium, driven by its DevTools protocol: pages, keys, screenshots, the accessibility tree.

Debian's browser, as an operator has one. The protocol is JSON over one websocket.
"""

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from lab.servers.process import StartFailed, find_program

_TIMEOUT = 60.0  # seconds
_POLL = 0.02
# Key -> (code, Windows key code, text).
_KEYS = {
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
}


class Page:
    """One tab. What it reports is in `complaints` (errors, refused by its policy) and `requested` (URLs)."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser = browser
        self._session = session
        self.complaints: list[str] = []
        self.requested: list[str] = []

    async def send(self, method: str, **parameters: Any) -> Any:
        """One command of the protocol."""
        return await self._browser.send(method, self._session, **parameters)

    def happened(self, method: str, parameters: Any) -> None:
        """Note an event."""
        if method == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])

    async def open(self, url: str) -> None:
        """Go to an address."""
        await self.send("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression, waited for. Raises AssertionError if it throws."""
        answer = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression is true, or an element is there. Raises TimeoutError that names it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while True:
            if await self.run(f"Boolean({script})"):
                return
            if loop.time() > deadline:
                text = await self.run("document.body?.innerText")
                raise TimeoutError(f"{script} has not come true; the page has: {text}; {self.complaints}")
            await asyncio.sleep(_POLL)

    async def text(self, words: str) -> None:
        """Wait until the page shows these words."""
        await self.until(f"document.body && document.body.innerText.includes({json.dumps(words)})")

    async def press(self, *keys: str) -> None:
        """Press keys by their names, one after the other."""
        for key in keys:
            code, number, text = _KEYS.get(key, (key, ord(key[0].upper()), key))
            common = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            await self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
            await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, selector: str, text: str) -> None:
        """Put text into a field, in place of its present text."""
        field = f"document.querySelector({json.dumps(selector)})"
        await self.until(field)
        await self.run(f"({field}.focus(), {field}.select())")
        await self.send("Input.insertText", text=text)

    async def click(self, words: str, within: str = "body") -> None:
        """Click the button, tab or link that has exactly these words."""
        script = (
            f"[...(document.querySelector({json.dumps(within)})?.querySelectorAll('button, a') ?? [])]"
            f".find((each) => each.innerText.trim() === {json.dumps(words)} && !each.disabled)"
        )
        await self.until(f"({script}) !== undefined")
        await self.run(f"({script}).click()")

    async def look(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Set the size of the window and what the user prefers."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = "dark" if dark else "light"
        await self.send(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    async def screenshot(self) -> bytes:
        """A PNG of the window."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])

    async def roles(self) -> list[tuple[str, str]]:
        """(role, name) of all that a screen reader finds, in its order."""
        nodes = (await self.send("Accessibility.getFullAXTree"))["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored") and "role" in node
        ]


class Browser:
    """One process, with pages."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._pages: dict[str, Page] = {}
        self._contexts: list[str] = []

    async def listen(self) -> None:
        """Take what the browser says, until it ends."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                answer = self._answers.pop(said["id"])
                if answer.done():
                    continue
                if "error" in said:
                    answer.set_exception(RuntimeError(said["error"]["message"]))
                else:
                    answer.set_result(said["result"])
            elif said.get("sessionId") in self._pages:
                self._pages[said["sessionId"]].happened(said["method"], said["params"])

    async def send(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """One command of the protocol."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        packet = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(packet if session is None else packet | {"sessionId": session})
        async with asyncio.timeout(_TIMEOUT):
            return await answer

    async def page(self) -> Page:
        """A tab of a user of its own: it shares no cookies with the others."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        self._contexts.append(context)
        target = await self.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"])
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.send(f"{domain}.enable")
        await page.look()
        return page

    async def close_pages(self) -> None:
        """Close all tabs, each of which asks its server for news as long as it is open."""
        self._pages.clear()
        for context in self._contexts:
            await self.send("Target.disposeBrowserContext", browserContextId=context)
        self._contexts.clear()


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """A browser that ends with the block. Raises BinaryMissing, StartFailed."""
    program = find_program("chromium", "make setup-test installs it")
    folder = Path(tempfile.mkdtemp(prefix="zketcd-test-browser-"))
    command = [
        program,
        "--headless=new",
        "--no-sandbox",  # its sandbox does not run as root
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--no-default-browser-check",
        "--password-store=basic",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        f"--user-data-dir={folder}",
        "--remote-debugging-port=0",
        "about:blank",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else uses the loop now
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
    try:
        address = await _address(folder, process)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=64 << 20, proxy=None) as socket,
        ):
            browser = Browser(socket)
            listening = asyncio.get_running_loop().create_task(browser.listen())
            try:
                yield browser
            finally:
                listening.cancel()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the browser listens, once it does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TIMEOUT
    said = folder / "DevToolsActivePort"
    while not (said.exists() and said.read_text().count("\n")):
        if process.poll() is not None or loop.time() > deadline:
            raise StartFailed(f"chromium does not start:\n{(folder / 'log').read_text()[-4000:]}")
        await asyncio.sleep(_POLL)
    port, path = said.read_text().split("\n")[:2]
    return f"ws://127.0.0.1:{port}{path}"
