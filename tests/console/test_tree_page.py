"""Data, the tree and lists in a real browser: what they show is what is stored, now."""

import asyncio
import json

import pytest

from codec.client import delete, packet, set_data
from lab.servers.browser import Page
from schema.budgets import BudgetsValue, BudgetValue
from tests.console.consoles import answered, create
from tests.console.stage import Stage, connected, quiet, title_of

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]


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
    await quiet(page, stage)


async def test_setting_data_keeps_every_byte(stage: Stage) -> None:
    cases = {
        "/bytes": b"one\r\ntwo\r\n",
        "/bytes/lf": b"\n\n one\ttwo\n",
        "/bytes/mixed": b"one\r\ntwo\nthree\r",
        "/bytes/binary": b"\xff\x00\r\n\xfe",
        "/bytes/bom": "\ufeffone\u202e two".encode(),
        "/bytes/large": b"large\r\n" * 10_000,  # more than is shown
    }
    await create(stage.client, *cases.items())
    page = await stage.page()
    for path, data in cases.items():
        await page.run(f"location.hash = '#tree:{path.replace('/', '%2F')}'")
        await page.until(title_of(path))
        await page.click("Set data…")
        await page.until("document.querySelector('dialog textarea')")
        await page.click("Set", "dialog")
        await page.until("!document.querySelector('dialog')")
        node = stage.console.nodes[path]
        assert (node.data, node.version) == (data, 1), path
    # A form that would change them is refused with the reason.
    await page.run("location.hash = '#tree:%2Fbytes%2Fmixed'")
    await page.until(title_of("/bytes/mixed"))
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
    await quiet(page, stage)


async def test_a_button_pressed_while_a_znode_is_read_again_waits_for_it(stage: Stage) -> None:
    await create(stage.client, ("/pressed", b"one"), ("/pressed/other", b""))
    page = await stage.page("#tree:%2Fpressed")
    await page.until(f"{_DATA} === 'one'")
    await page.run("""(() => {
      const plain = window.fetch;
      window.held = new Promise((release) => { window.release = release; });
      window.fetch = async (url, ...rest) => {
        if (url.endsWith('/look')) await window.held;
        return plain(url, ...rest);
      };
    })()""")
    await page.click("Set data…")
    await page.type("dialog textarea[name=data]", "two")
    await page.click("Set", "dialog")
    await page.until("!document.querySelector('dialog')")
    await page.click("Set data…")
    assert await page.run("document.querySelector('dialog') === null")
    await page.run("window.release()")
    await page.until("document.querySelector('dialog textarea[name=data]')?.value === 'two'")
    assert await page.run("document.querySelector('dialog input[name=version]').value") == "1"
    await page.click("Cancel", "dialog")
    # Another znode has been chosen meanwhile: nothing is asked about it.
    await page.run("void (window.held = new Promise((release) => { window.release = release; }))")
    await page.run("location.hash = '#tree:%2Fpressed%2Fother'")
    await page.run("new Promise((done) => setTimeout(done))")
    await page.click("Set data…")
    await page.run("window.release()")
    await page.until(title_of("/pressed/other"))
    assert await page.run("document.querySelector('dialog') === null")
    await quiet(page, stage)


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
    await quiet(page, stage)


async def test_the_tree_and_the_panel_follow_what_happens(stage: Stage) -> None:
    await create(stage.client, ("/live", b""), ("/live/a", b"one"), ("/live/b", b""))
    page = await stage.page("#tree:%2Flive%2Fa")
    await page.until(f"{_DATA} === 'one'")

    def row(label: str, age: str) -> str:
        item = f"[role=treeitem][aria-label={json.dumps(label)}]"
        shown = f"document.querySelector({json.dumps(item)})?.querySelector('.age').textContent"
        return f"{shown}?.startsWith('{age} ')"

    async def soon(script: str) -> None:
        async with asyncio.timeout(50):  # two seconds on an idle machine
            await page.until(script)

    parent = "document.querySelector('[role=treeitem][aria-label=\"live, 2 children\"]')"
    await page.until(f"{parent} && {row('a', 'new')}")
    await page.run(f"{parent}.focus()")
    await answered(stage.client, packet(3, set_data("/live/a", b"two")))
    await soon(f"{_DATA} === 'two'")
    await soon("document.querySelector('.node .changed').textContent.startsWith('changed ')")
    await soon(row("a", "changed"))
    await create(stage.client, ("/live/aa", b""), ("/live/b/c", b""))
    await soon(row("aa", "new"))
    await soon("document.querySelector('[role=treeitem][aria-label=\"b, 1 child\"][aria-expanded=false]')")
    await answered(stage.client, packet(4, delete("/live/a")))
    await soon(row("a, deleted", "deleted"))
    await page.text("This znode was deleted. Below is what it was last.")
    # Rows that stay are not made anew, so the focus stays.
    assert await page.run("document.activeElement.getAttribute('aria-label')") == "live, 2 children"
    # The last child is in sight as well.
    await create(stage.client, ("/live/aa/last", b""))
    await page.run("location.hash = '#tree:%2Flive%2Faa%2Flast'")
    await soon(f"{row('last', 'new')} && {title_of('/live/aa/last')}")
    await answered(stage.client, packet(5, delete("/live/aa/last")))
    await soon(row("last, deleted", "deleted"))
    await page.run("location.hash = '#tree:%2Flive%2Fa'")
    await page.text("there is no znode '/live/a'")
    await create(stage.client, ("/live/a", b"three"))
    await soon(f"{_DATA} === 'three'")
    await soon(row("a", "new"))
    await quiet(page, stage)


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
    await quiet(page, stage)


async def test_a_subtree_is_copied_exported_and_imported(stage: Stage) -> None:
    await create(stage.client, ("/sub", b"\r\n"), ("/sub/x", b"1"), ("/sub/x/y", b"\xff"))
    page = await stage.page("#tree:%2Fsub")
    await page.until(title_of("/sub"))
    await page.click("Copy…")
    await page.type("dialog input[name=to]", "/copied")
    await page.click("Copy", "dialog")
    await page.until(title_of("/copied"))
    assert stage.console.nodes["/copied/x/y"].data == b"\xff"
    address = await page.run(
        "[...document.querySelectorAll('a')].find((each) => each.innerText === 'Export').href"
    )
    assert address.endswith("/console/api/v1/export?path=%2Fcopied")
    await page.click("Import…")
    await _choose_file(page, f"await (await fetch({json.dumps(address)})).text()")
    await page.type("dialog input[name=name]", "again")
    await page.click("Import", "dialog")
    await page.until(title_of("/copied/again"))
    assert stage.console.nodes["/copied/again"].data == b"\r\n"
    assert stage.console.nodes["/copied/again/x/y"].data == b"\xff"
    await page.click("Import…")
    await _choose_file(page, f"(await (await fetch({json.dumps(address)})).text()).slice(0, -20)")
    await page.click("Import", "dialog")
    await page.text("no exported subtree")
    await quiet(page, stage)


async def test_sessions_are_sorted_and_filtered(stage: Stage) -> None:
    other = await connected(stage.console)
    await create(other, *((f"/sorted-{number}", b"") for number in range(9)), flags=1)
    page = await stage.page("#sessions")
    own = f"0x{other.session.session:x}"
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
    await page.run(f"location.hash = '#sessions:{own}'")
    await page.click("End session…")
    await page.text("9 ephemerals are deleted with it")
    await page.click("End session", "dialog")
    await page.until("!document.querySelector('dialog')")
    assert other.session.session not in stage.console.server.machine.sessions
    await quiet(page, stage)
    await other.close()


async def test_the_traffic_has_a_history_when_the_page_opens(stage: Stage) -> None:
    recorder = stage.console.console.api.recorder
    recorder.take(asyncio.get_running_loop().time())
    page = await stage.browser.page()
    # The second time it is asked only when the first answer has been shown.
    once = """
      const plain = window.fetch;
      window.shown = new Promise((release) => { window.release = release; });
      let asked = 0;
      window.fetch = async (url, ...rest) => {
        if (url.endsWith('/traffic') && asked++) await window.shown;
        return plain(url, ...rest);
      };
    """
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=once)
    await page.open(f"{stage.url}#traffic")
    await page.until("document.querySelectorAll('svg polyline[points*=\",\"]').length > 0")
    await page.run("window.release()")
    await page.click("1 hour")
    await page.text("59 min ago")
    await quiet(page, stage)


async def test_a_process_that_has_taken_over_has_no_negative_rates(stage: Stage) -> None:
    page = await stage.browser.page()
    # The second answer is that of a process that has begun to count; then there is none.
    begun = """
      const plain = window.fetch;
      let asked = 0;
      window.fetch = async (url, ...rest) => {
        if (!url.endsWith('/traffic')) return plain(url, ...rest);
        if (asked++ > 1) await new Promise(() => {});
        const body = await (await plain(url, ...rest)).json();
        for (const each of Object.values(body.operations)) each.count = asked > 1 ? 1 : 5000;
        return new Response(JSON.stringify(body));
      };
    """
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=begun)
    await page.open(f"{stage.url}#traffic")
    since = "[...document.querySelectorAll('td[data-label=\"Since start\"]')].map((each) => each.textContent)"
    await page.until(f"{since}[0] === '5,000'")
    await page.until(f"{since}[0] === '1'")
    rates = "[...document.querySelectorAll('td[data-label=\"Now\"]')].map((each) => each.textContent)"
    assert set(await page.run(rates)) == {"0.0/s"}
    await quiet(page, stage)


async def test_a_proxy_that_hangs_is_reported(stage: Stage) -> None:
    """Figures of before it hung looked like those of now."""
    page = await stage.browser.page()
    await page.open(f"http://127.0.0.1:{stage.guarded.port}/console/")
    await page.text("Log in")  # where nothing else asks
    await page.run(
        "import('./poll.js').then((module) => void module.poll(() => new Promise(() => {}), 1, 1))"
    )
    await page.text("This proxy has not answered for a while.")


async def test_the_traffic_shows_budgets(stage: Stage) -> None:
    server = stage.console.server
    before = server.machine.budgets.value
    page = await stage.page("#traffic")
    await page.text("By operation")
    assert not await page.run("document.body.innerText.includes('Budgets of the tree')")
    long = BudgetValue("/" + "x" * 300, 1, 0, 0, 0, 0)
    server.machine.budgets.load(BudgetsValue(0, {}, (BudgetValue("/app", 500, 0, 0, 0, 0), long)))
    server.log.stats.throttled["/app"] += 7
    try:
        row = "[...document.querySelectorAll('tr')].find((each) => each.innerText.startsWith('/app'))"
        await page.until(f"{row}?.innerText.split(/\\s*\\t\\s*/).join() === '/app,500,no limit,7'")
        assert not await page.run(f"document.body.innerText.includes('{long.path}')")
    finally:
        server.machine.budgets.load(before)
        del server.log.stats.throttled["/app"]
    await quiet(page, stage)
