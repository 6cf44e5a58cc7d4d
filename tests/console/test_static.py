"""The page in a real browser: keyboard, roles, dark and light, small windows, hostile names, its policy.

One browser for all tests, and one server that only they use: each test works below a znode of its own.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator

import matplotlib.image
import pytest
import pytest_asyncio

from lab.client import packets
from lab.servers.browser import Browser, Page, browsing
from tests.console.consoles import PASSWORD, Place, answered, create, place
from tests.proxy.test_server import Client

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

_HOSTILE = "<img src=x onerror=document.title='hit'>"
_SCRIPT = b"<script>document.title='hit'</script>"


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
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
            (f"/{_HOSTILE}", _SCRIPT),
            ("/many", b""),
            *((f"/many/{number:04d}", b"") for number in range(450)),
        )
        yield Stage(browser, console, client, guarded)
        await client.close()


async def _quiet(page: Page, stage: Stage) -> None:
    """The page has reported nothing, and has asked nobody but its own proxy."""
    assert page.complaints == []
    strangers = [url for url in page.requested if not url.startswith((stage.url, "about:", "data:"))]
    assert strangers == []
    assert await page.run("document.title") != "hit"


async def _brightness(page: Page) -> float:
    """The mean of a screenshot's left edge, 0 to 255."""
    return float(matplotlib.image.imread(io.BytesIO(await page.screenshot()))[:, 0, 0].mean() * 255)


async def _confirm(page: Page, path: str, button: str) -> None:
    await page.type("dialog input[name=path]", path)
    await page.click(button, "dialog")


def _title(path: str) -> str:
    """The view of this znode is shown."""
    return f"document.querySelector('.node h2')?.textContent === {json.dumps(path)}"


_FOCUSED = "document.activeElement.getAttribute('aria-label')"


async def test_the_tree_is_moved_in_by_keys(stage: Stage) -> None:
    page = await stage.page()
    await page.until("document.querySelectorAll('[role=treeitem]').length > 4")
    await page.run("document.querySelector('[role=treeitem]').focus()")

    async def press(key: str, words: str) -> None:
        await page.press(key)
        await page.until(f"{_FOCUSED} === {json.dumps(words)}")

    await press("ArrowRight", _HOSTILE)
    await press("a", "app, 2 children")
    await press("ArrowRight", "app, 2 children")
    await page.until("document.activeElement.getAttribute('aria-expanded') === 'true'")
    await page.until("document.activeElement.querySelectorAll('[role=treeitem]').length === 2")
    await press("ArrowRight", "alpha")
    await press("ArrowDown", "beta, 1 child")
    await press("ArrowUp", "alpha")
    await press("ArrowLeft", "app, 2 children")
    await press("End", "zookeeper, 2 children")
    await press("Home", "/, root")
    await page.press("a", "ArrowDown", "Enter")
    await page.text("/app/alpha")
    await page.until("document.querySelector('pre.data')?.textContent === 'first'")
    assert await page.run("document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length") == 1
    await _quiet(page, stage)


async def test_a_large_directory_pages(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fmany%2F0000")
    more = "document.querySelector('[role=treeitem].more')"
    for left in (250, 50):
        await page.until(f"{more}?.innerText.includes('{left} left')")
        await page.run(f"{more}.focus()")
        await page.press("Enter")
    await page.until(f"!{more} && document.querySelectorAll('[aria-level=\"3\"]').length === 450")
    await _quiet(page, stage)


async def test_a_screen_reader_finds_its_way(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fapp")
    await page.text("replicas")
    await page.until("document.querySelector('[role=treeitem][aria-selected=true]')")
    roles = await page.roles()
    assert {
        ("tablist", "Views"),
        ("tab", "Tree"),
        ("tab", "Proxies"),
        ("tabpanel", "Tree"),
        ("tree", "Znodes"),
        ("treeitem", "app, 2 children"),
        ("heading", "/app"),
        ("heading", "Stat"),
        ("table", "ACL"),
        ("columnheader", "Permissions"),
        ("status", ""),
    } <= set(roles)
    assert {role for role, _ in roles} >= {"banner", "main", "navigation", "search"} - {"navigation"}
    unnamed = [
        role for role, name in roles if role in ("button", "textbox", "combobox", "link", "tab") and not name
    ]
    assert unnamed == []
    await _quiet(page, stage)


async def test_tabs_are_moved_in_by_keys_and_each_view_shows_its_facts(stage: Stage) -> None:
    await create(stage.client, ("/lock", b""), flags=1)
    await answered(stage.client, packets.get(2, "/app", watch=True))
    page = await stage.page()
    session = f"0x{stage.client.session.session_id:x}"
    await page.run("document.querySelector('[role=tab]').focus()")
    for title, words in (
        ("Sessions", session),
        ("Waiting", "/app"),
        ("Traffic", "get_data"),
        ("Log", "Entries since the tree began"),
        ("Proxies", "this one"),
        ("Deletions", "None waits."),
        ("Tree", "zookeeper"),
    ):
        await page.press("ArrowRight")
        await page.until(f"document.activeElement.innerText.trim() === {json.dumps(title)}")
        await page.until("document.activeElement.getAttribute('aria-selected') === 'true'")
        await page.text(words)
    await page.run("location.hash = '#sessions'")
    await page.click(session)
    await page.text("/lock")
    await page.click("/lock")
    await page.text("ephemeral")
    await page.run("location.hash = '#traffic'")
    await page.until("document.querySelectorAll('svg polyline[points*=\",\"]').length > 0")
    await _quiet(page, stage)


async def test_hostile_names_and_data_are_text(stage: Stage) -> None:
    page = await stage.page()
    await page.until("document.querySelectorAll('[role=treeitem]').length > 4")
    await page.press("Tab")
    item = f"[role=treeitem][aria-label={json.dumps(_HOSTILE)}]"
    await page.run(f"document.querySelector({json.dumps(item)}).querySelector('.row').click()")
    await page.until(_title(f"/{_HOSTILE}"))
    await page.until(f"document.querySelector('pre.data')?.textContent === {json.dumps(_SCRIPT.decode())}")
    assert await page.run("document.querySelectorAll('main img, main script').length") == 0
    await _quiet(page, stage)


async def test_data_as_text_json_and_hex(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fapp")
    shown = "document.querySelector('pre.data')?.textContent"
    await page.until(f"{shown} === {json.dumps(json.dumps({'replicas': ['r1', 'r2']}, indent=2))}")
    await page.click("Text")
    await page.until(f"{shown} === {json.dumps(json.dumps({'replicas': ['r1', 'r2']}))}")
    await page.click("Hex")
    await page.until(f"{shown}.startsWith('00000000  7b 22 72')")
    await page.type("input[name=path]", "/app/beta")
    await page.press("Enter")
    await page.until(f"{shown}?.startsWith('00000000  ff 00 01')")
    disabled = "[...document.querySelectorAll('[data-form]')].filter((each) => each.disabled).length"
    assert await page.run(disabled) == 2
    await page.type("input[name=path]", "/none")
    await page.press("Enter")
    await page.text("there is no znode '/none'")
    # The browser's own report of the 404 that was shown is all there is.
    assert [text for text in page.complaints if "404" not in text] == []


_DATA = "document.querySelector('pre.data')?.textContent"


async def _shown_as(page: Page, data: str) -> str | None:
    """What the page makes of some JSON."""
    made: str | None = await page.run(
        f"import('./json.js').then((module) => module.pretty({json.dumps(data)}))"
    )
    return made


async def test_json_is_shown_as_it_is_stored(stage: Stage) -> None:
    data = '{"n": 12345678901234567890, "f": 1.0, "e": 1e5, "n": [-0, {}], "s": "\\u0041 \\" [1,2]"}'
    await create(stage.client, ("/json", data.encode()))
    page = await stage.page("#tree:%2Fjson")
    laid = """{
  "n": 12345678901234567890,
  "f": 1.0,
  "e": 1e5,
  "n": [
    -0,
    {}
  ],
  "s": "\\u0041 \\" [1,2]"
}"""
    await page.until(f"{_DATA} === {json.dumps(laid)}")
    for other in ("[]", "[1,2", "17", '"x"', "{'a': 1}", "[01]", "\ufeff[1]", "[" * 100_000):
        assert await _shown_as(page, other) == ("[]" if other == "[]" else None), other[:9]
    deep = "[" * 1500 + "]" * 1500
    laid = str(await _shown_as(page, deep))
    assert "".join(laid.split()) == deep
    assert len(laid) < 1_000_000
    await _quiet(page, stage)


async def test_setting_data_keeps_every_byte(stage: Stage) -> None:
    cases = {
        "/bytes": b"one\r\ntwo\r\n",
        "/bytes/lf": b"\n\n one\ttwo\n",
        "/bytes/mixed": b"one\r\ntwo\nthree\r",
        "/bytes/binary": b"\xff\x00\r\n\xfe",
        "/bytes/bom": "\ufeffone\u202e two".encode(),
        "/bytes/large": b"large\r\n" * 20_000,
    }
    await create(stage.client, *cases.items())
    page = await stage.page()
    for path, data in cases.items():
        await page.run(f"location.hash = '#tree:{path.replace('/', '%2F')}'")
        await page.until(_title(path))
        await page.click("Set data…")
        await page.until("document.querySelector('dialog textarea')")
        await page.click("Set", "dialog")
        await page.until("!document.querySelector('dialog')")
        node = stage.console.nodes[path]
        assert (node.data, node.version) == (data, 1), path
    # A form that would change them is refused with the reason.
    await page.run("location.hash = '#tree:%2Fbytes%2Fmixed'")
    await page.until(_title("/bytes/mixed"))
    await page.click("Set data…")
    await page.text("The line ends are mixed")
    await page.click("Text", "dialog")
    assert (
        await page.run("document.querySelector('dialog [data-form=hex]').getAttribute('aria-pressed')")
        == "true"
    )
    await page.type("dialog textarea[name=hex]", "0d 0a f")
    await page.click("Set", "dialog")
    await page.text("no pairs of hexadecimal digits")
    await page.type("dialog textarea[name=hex]", "0d 0A ff\n00")
    await page.click("Set", "dialog")
    await page.until("!document.querySelector('dialog')")
    assert stage.console.nodes["/bytes/mixed"].data == b"\r\n\xff\0"
    await page.click("Set data…")
    await page.click("File", "dialog")
    await _choose_file(page, "new Uint8Array([13, 10, 0, 255])")
    await page.click("Set", "dialog")
    await page.until("!document.querySelector('dialog')")
    assert stage.console.nodes["/bytes/mixed"].data == b"\r\n\0\xff"
    await _quiet(page, stage)


async def _choose_file(page: Page, content: str) -> None:
    """Put a file of this JavaScript value into the dialog."""
    await page.run(
        f"(async () => {{ const list = new DataTransfer(); list.items.add(new File([{content}], 'f'));"
        "document.querySelector('dialog input[type=file]').files = list.files; })()"
    )


async def test_hidden_characters_are_marked(stage: Stage) -> None:
    await create(stage.client, ("/hidden", "a\u202eb\r\n".encode()))
    page = await stage.page("#tree:%2Fhidden")
    await page.until(f"{_DATA} === {json.dumps(chr(0x61) + chr(0x202E) + 'b' + chr(13) + chr(10))}")
    names = "[...document.querySelectorAll('.hidden-character')].map((each) => each.dataset.name).join()"
    assert await page.run(names) == "U+202E,CR"
    await _quiet(page, stage)


async def test_the_tree_and_the_panel_follow_what_happens(stage: Stage) -> None:
    await create(stage.client, ("/live", b""), ("/live/a", b"one"), ("/live/b", b""))
    page = await stage.page("#tree:%2Flive%2Fa")
    await page.until(f"{_DATA} === 'one'")

    def row(label: str, age: str) -> str:
        item = f"[role=treeitem][aria-label={json.dumps(label)}]"
        shown = f"document.querySelector({json.dumps(item)})?.querySelector('.age').textContent"
        return f"{shown}?.startsWith('{age} ')"

    async def soon(script: str) -> None:
        async with asyncio.timeout(10):  # two seconds on an idle machine
            await page.until(script)

    parent = "document.querySelector('[role=treeitem][aria-label=\"live, 2 children\"]')"
    await page.until(f"{parent} && {row('a', 'new')}")
    await page.run(f"{parent}.focus()")
    await answered(stage.client, packets.put(3, "/live/a", b"two"))
    await soon(f"{_DATA} === 'two'")
    await soon("document.querySelector('.node .changed').textContent.startsWith('changed ')")
    await soon(row("a", "changed"))
    await create(stage.client, ("/live/aa", b""), ("/live/b/c", b""))
    await soon(row("aa", "new"))
    await soon("document.querySelector('[role=treeitem][aria-label=\"b, 1 child\"][aria-expanded=false]')")
    await answered(stage.client, packets.delete(4, "/live/a"))
    await soon(row("a, deleted", "deleted"))
    await page.text("This znode was deleted. Below is what it was last.")
    # Rows that stay are not made anew, so the focus stays.
    assert await page.run("document.activeElement.getAttribute('aria-label')") == "live, 2 children"
    await create(stage.client, ("/live/a", b"three"))
    await soon(f"{_DATA} === 'three'")
    await soon(row("a", "new"))
    await _quiet(page, stage)


async def test_any_place_of_a_large_directory_is_at_hand(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fmany%2F0400")
    chosen = "document.querySelector('[role=treeitem][aria-selected=true]')"
    await page.until(f"{chosen}?.getAttribute('aria-label') === '0400'")
    items = "document.querySelectorAll('[aria-level=\"3\"]:not(.more)')"
    assert await page.run(f"[{items}.length, {items}[0].ariaLabel, {chosen}.ariaPosInSet]") == [
        60,
        "0390",
        "401",
    ]
    await page.type(".seek input[placeholder='Jump to name']", "0123")
    await page.until(f"{items}[0].ariaLabel === '0123' && {items}.length === 200")
    await page.text("/many: 124–323 of 450")
    await page.type(".seek input[placeholder='Only with']", "44")
    await page.until(f"{items}.length === 14")
    await page.text("/many: 1–14 of 14 that match, of 450")
    await page.type(".seek input[placeholder='Only with']", "x")
    await page.text("/many: none that match, of 450")
    await page.run("document.querySelector('.seek input[placeholder=\"Only with\"]').value = ''")
    await page.run(
        "(() => { const range = document.querySelector('.seek input[type=range]'); range.value = 300;"
        "range.dispatchEvent(new Event('input')); })()"
    )
    await page.until(f"{items}.length === 0")
    await page.type(".seek input[placeholder='Only with']", "0")
    await page.until(f"{items}.length === 200")
    assert len([url for url in page.requested if "children" in url]) == 0
    await _quiet(page, stage)


async def test_a_subtree_is_copied_exported_and_imported(stage: Stage) -> None:
    await create(stage.client, ("/sub", b"\r\n"), ("/sub/x", b"1"), ("/sub/x/y", b"\xff"))
    page = await stage.page("#tree:%2Fsub")
    await page.until(_title("/sub"))
    await page.click("Copy…")
    await page.type("dialog input[name=to]", "/copied")
    await page.click("Copy", "dialog")
    await page.until(_title("/copied"))
    assert stage.console.nodes["/copied/x/y"].data == b"\xff"
    address = await page.run(
        "[...document.querySelectorAll('a')].find((each) => each.innerText === 'Export').href"
    )
    assert address.endswith("/console/api/v1/export?path=%2Fcopied")
    await page.click("Import…")
    await _choose_file(page, f"await (await fetch({json.dumps(address)})).text()")
    await page.type("dialog input[name=name]", "again")
    await page.click("Import", "dialog")
    await page.until(_title("/copied/again"))
    assert stage.console.nodes["/copied/again"].data == b"\r\n"
    assert stage.console.nodes["/copied/again/x/y"].data == b"\xff"
    await page.click("Import…")
    await _choose_file(page, f"(await (await fetch({json.dumps(address)})).text()).slice(0, -20)")
    await page.click("Import", "dialog")
    await page.text("no exported subtree")
    await _quiet(page, stage)


async def test_sessions_are_sorted_and_filtered(stage: Stage) -> None:
    other = await connected(stage.console)
    await create(other, *((f"/sorted-{number}", b"") for number in range(9)), flags=1)
    page = await stage.page("#sessions")
    own = f"0x{other.session.session_id:x}"
    await page.run("new Promise((done) => setTimeout(done, 100))")
    await page.until("document.querySelector('[data-sort=ephemerals]')")
    await page.run("document.querySelector('[data-sort=ephemerals]').click()")
    await page.until(f"document.querySelector('tbody td').innerText === {json.dumps(own)}")
    await page.run("document.querySelector('[data-sort=ephemerals]').click()")
    await page.until(
        f"[...document.querySelectorAll('tbody tr')].at(-1).innerText.includes({json.dumps(own)})"
    )
    await page.type("#panel input", own)
    await page.until("document.querySelectorAll('tbody tr').length === 1")
    await page.type("#panel input", "none of them")
    await page.text("No session matches.")
    await _quiet(page, stage)
    await other.close()


async def test_the_traffic_has_a_history_when_the_page_opens(stage: Stage) -> None:
    recorder = stage.console.console._api.recorder
    recorder.take(asyncio.get_running_loop().time())
    page = await stage.page("#traffic")
    await page.until("document.querySelectorAll('svg polyline[points*=\",\"]').length > 0")
    assert len([url for url in page.requested if url.endswith("traffic")]) == 1
    await page.click("1 hour")
    await page.text("59 min ago")
    await _quiet(page, stage)


async def test_completion_and_search(stage: Stage) -> None:
    page = await stage.page()
    await page.type("input[name=path]", "/app/b")
    await page.until("document.querySelector('#completions option')?.value === '/app/beta'")
    await page.type("input[name=path]", "/app")
    await page.type("input[name=text]", "deep")
    await page.press("Enter")
    await page.click("/app/beta/deep", ".results")
    await page.until(_title("/app/beta/deep"))
    await page.text("1 found in 4 znodes below /app")
    await _quiet(page, stage)


async def test_dark_light_and_the_switch(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fapp")
    await page.text("replicas")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await page.run(ground)
    assert await _brightness(page) > 200
    await page.look(dark=True)
    await page.until(f"{ground} !== {json.dumps(light)}")
    dark = await page.run(ground)
    assert await _brightness(page) < 60
    for words, colour in (("Theme: system", light), ("Theme: light", dark)):
        await page.click(words)
        await page.until(f"{ground} === {json.dumps(colour)}")
    await page.open("about:blank")
    await page.open(stage.url)
    await page.text("Theme: dark")
    await _quiet(page, stage)


async def test_a_small_window_needs_no_sideways_scrolling(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fapp")
    await page.look(width=375, height=700)
    for view in ("tree", "sessions", "waiting", "traffic", "log", "proxies", "deletions"):
        await page.run(f"location.hash = '#{view}'")
        await page.until(f"document.querySelector('#tab-{view}').getAttribute('aria-selected') === 'true'")
        await page.until("document.querySelector('#panel section')")
        await page.until("document.documentElement.scrollWidth <= 375")
        assert await page.run("document.querySelector('main').scrollWidth <= 375"), view
    await _quiet(page, stage)


async def test_znodes_are_created_changed_and_deleted(stage: Stage) -> None:
    page = await stage.page("#tree:%2F")
    await page.click("Create child…")
    await page.type("dialog input[name=name]", "made")
    await page.type("dialog textarea", "<b>1</b>")
    await page.click("Create", "dialog")
    await page.until(_title("/made"))
    await page.click("Set data…")
    await page.type("dialog textarea", "zwei \u2713")
    await page.click("Set", "dialog")
    await page.until("document.querySelector('pre.data')?.textContent === 'zwei \u2713'")
    node = stage.console.nodes["/made"]
    assert (node.data, node.version) == ("zwei \u2713".encode(), 1)
    await page.click("Create child…")
    await page.type("dialog input[name=name]", "a/b/c")
    await page.click("Create", "dialog")
    await page.text("there is no such znode")
    await page.click("Cancel", "dialog")
    await create(stage.client, ("/made/1", b""), ("/made/2", b""))
    await page.click("Reload")
    await page.click("Delete all below…")
    await page.click("Ask for the deletion", "dialog")
    await page.click("Confirm…")
    await _confirm(page, "/made/1", "Delete 3 znodes")
    await page.text("is not that of the request")
    await _confirm(page, "/made", "Delete 3 znodes")
    await page.text("None waits.")
    assert "/made" not in stage.console.nodes
    assert [text for text in page.complaints if "404" not in text and "403" not in text] == []


async def test_a_login_an_identity_and_a_second_user(stage: Stage) -> None:
    url = f"http://127.0.0.1:{stage.guarded.port}/console/"
    pages = {}
    for user in ("amy", "ben"):
        page = pages[user] = await stage.browser.page()
        await page.open(url)
        await page.type("input[name=user]", user)
        await page.type("input[name=password]", PASSWORD)
        await page.press("Enter")
        await page.text(f"Log out {user}")
    amy, ben = pages["amy"], pages["ben"]
    await amy.click("Add identity")
    await amy.type("dialog input[name=credentials]", "joe:secret")
    await amy.click("Save", "dialog")
    await amy.text("Identities: 1")
    await amy.click("Create child…")
    await amy.type("dialog input[name=name]", "joes")
    await amy.run("document.querySelector('dialog select[name=acl]').value = 'creator'")
    await amy.click("Create", "dialog")
    await amy.until(_title("/joes"))
    await ben.run("location.hash = '#tree:%2Fjoes'")
    await ben.text("does not let this login read it")
    client = await connected(stage.guarded, ("/d", b""), ("/d/x", b""))
    await amy.run("location.hash = '#tree:%2Fd'")
    await amy.click("Delete all below…")
    await amy.click("Ask for the deletion", "dialog")
    await amy.text("another user has to confirm")
    await ben.run("location.hash = '#deletions'")
    await ben.click("Confirm…")
    await _confirm(ben, "/d", "Delete 2 znodes")
    await ben.text("None waits.")
    assert "/d" not in stage.guarded.nodes
    await ben.click("Log out ben")
    await ben.text("Log in")
    await client.close()
