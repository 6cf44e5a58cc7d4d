"""The page in a real browser: keyboard, roles, dark and light, small windows, hostile names, its policy.

One browser for all tests, and one server that only they use: each test works below a znode of its own.
"""

import io
import json

import pytest

from codec.client import get, packet
from lab.servers.browser import Page
from lab.servers.waiting import eventually
from tests.console.consoles import PASSWORD, answered, create
from tests.console.stage import HOSTILE, SCRIPT, Stage, connected, quiet, title_of

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]


async def _brightness(page: Page) -> float:
    """The mean of a screenshot's left edge, 0 to 255."""
    from matplotlib.image import imread  # half a second, in each process that lists all tests

    return float(imread(io.BytesIO(await page.screenshot()))[:, 0, 0].mean() * 255)


async def _confirm(page: Page, path: str, button: str) -> None:
    await page.type("dialog input[name=path]", path)
    await page.click(button, "dialog")


_FOCUSED = "document.activeElement.getAttribute('aria-label')"


async def test_the_tree_is_moved_in_by_keys(stage: Stage) -> None:
    page = await stage.page()
    await page.until("document.querySelectorAll('[role=treeitem]').length > 4")
    await page.run("document.querySelector('[role=treeitem]').focus()")

    async def press(key: str, words: str) -> None:
        await page.press(key)
        await page.until(f"{_FOCUSED} === {json.dumps(words)}")

    await press("ArrowRight", HOSTILE)
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
    await quiet(page, stage)


async def test_a_large_directory_pages(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fmany%2F0000")
    more = "document.querySelector('[role=treeitem].more')"
    for left in (250, 50):
        await page.until(f"{more}?.innerText.includes('({left} left')")
        await page.run(f"{more}.focus()")
        await page.press("Enter")
    await page.until(f"!{more} && document.querySelectorAll('[aria-level=\"3\"]').length === 450")
    await quiet(page, stage)


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
    await quiet(page, stage)


async def test_tabs_are_moved_in_by_keys_and_each_view_shows_its_facts(stage: Stage) -> None:
    await create(stage.client, ("/lock", b""), flags=1)
    await answered(stage.client, packet(2, get("/app", watch=True)))
    page = await stage.page()
    session = f"0x{stage.client.session.session:x}"
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
    await quiet(page, stage)


async def test_hostile_names_and_data_are_text(stage: Stage) -> None:
    page = await stage.page()
    await page.until("document.querySelectorAll('[role=treeitem]').length > 4")
    await page.press("Tab")
    item = f"[role=treeitem][aria-label={json.dumps(HOSTILE)}]"
    await page.run(f"document.querySelector({json.dumps(item)}).querySelector('.row').click()")
    await page.until(title_of(f"/{HOSTILE}"))
    await page.until(f"document.querySelector('pre.data')?.textContent === {json.dumps(SCRIPT.decode())}")
    assert await page.run("document.querySelectorAll('main img, main script').length") == 0
    await quiet(page, stage)


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


async def test_completion_and_search(stage: Stage) -> None:
    page = await stage.page()
    await page.type("input[name=path]", "/app/b")
    await page.until("document.querySelector('#completions option')?.value === '/app/beta'")
    await page.type("input[name=path]", "/app")
    await page.type("input[name=text]", "deep")
    await page.press("Enter")
    await page.click("/app/beta/deep", ".results")
    await page.until(title_of("/app/beta/deep"))
    await page.text("1 found in 4 znodes below /app")
    await quiet(page, stage)


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
    await quiet(page, stage)


async def test_a_small_window_needs_no_sideways_scrolling(stage: Stage) -> None:
    page = await stage.page("#tree:%2Fapp")
    await page.look(width=375, height=700)
    for view in ("tree", "sessions", "waiting", "traffic", "log", "proxies", "deletions"):
        await page.run(f"location.hash = '#{view}'")
        await page.until(f"document.querySelector('#tab-{view}').getAttribute('aria-selected') === 'true'")
        await page.until("document.querySelector('#panel section')")
        await page.until("document.documentElement.scrollWidth <= 375")
        assert await page.run("document.querySelector('main').scrollWidth <= 375"), view
    await quiet(page, stage)


async def test_znodes_are_created_changed_and_deleted(stage: Stage) -> None:
    page = await stage.page("#tree:%2F")
    await page.click("Create child…")
    await page.type("dialog input[name=name]", "made")
    await page.type("dialog textarea", "<b>1</b>")
    await page.click("Create", "dialog")
    await page.until(title_of("/made"))
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
    await page.text("None waits.")  # as soon as it is confirmed

    async def is_deleted() -> bool:
        return "/made" not in stage.console.nodes

    await eventually(is_deleted, "the deletion")
    assert [text for text in page.complaints if "404" not in text and "403" not in text] == []


async def test_a_deletion_is_confirmed_by_the_path_as_it_is_shown(stage: Stage) -> None:
    """A character that cannot be seen cannot be typed."""
    await create(stage.client, ("/\u202egone", b""))
    page = await stage.page("#deletions")
    await page.run("import('./api.js').then((api) => api.post('deletions', { path: '/\\u202egone' }))")
    await page.click("Confirm…")
    await _confirm(page, "/\\u202egone", "Delete 1 znode")
    await page.text("None waits.")
    assert "/\u202egone" not in stage.console.nodes
    await quiet(page, stage)


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
    await amy.until(title_of("/joes"))
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
