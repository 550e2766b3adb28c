"""Opens report pages in headless Chromium, in light and dark, wide and narrow, and tells what is wrong with them."""

import asyncio
import base64
import itertools
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from .rally import WORK

REPORTS, PICTURES = WORK / "reports", WORK / "look"
SCHEMES = ("light", "dark")
WIDTHS = (1280, 390)
TALLEST = 16_000
"""Pixels of a picture, of which Chromium has a limit."""
DRAWN_S = 30
"""Longest that a page may take to draw its charts."""
FOUND = """(async () => {
  if (document.readyState !== "complete") await new Promise(done => addEventListener("load", done));
  if (document.querySelector(".chart")) await drawn;
  const charts = [...document.querySelectorAll(".chart")], found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push("the page is wider than the screen");
  for (const chart of charts) {
    const svg = chart.querySelector("svg"), box = svg?.getBoundingClientRect();
    if (!svg) { found.push(`${chart.id} is not drawn`); continue; }
    if (box.width > chart.clientWidth + 1) found.push(`${chart.id} is wider than its place`);
    for (const text of svg.querySelectorAll("text")) {
      const own = text.getBoundingClientRect();
      if (text.textContent && own.width && (own.left < box.left - 1 || own.right > box.right + 1 ||
          own.top < box.top - 1 || own.bottom > box.bottom + 1))
        found.push(`${chart.id} cuts [${text.textContent}] off`);
    }
  }
  return found;
})()"""


class Browser:
    """A tab that is spoken to by the DevTools protocol.

    :param socket: of the tab.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse):
        self._socket, self._numbers = socket, itertools.count(1)
        self.seen: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method; what the page says and asks for meanwhile goes into ``seen``."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=2 * DRAWN_S)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return dict(message["result"])
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent" and not about["request"]["url"].startswith(("file:", "data:")):
            self.seen.append(f"asks for {about['request']['url']}")
        if event == "Runtime.exceptionThrown":
            self.seen.append(f"an error: {about['exceptionDetails']['exception']['description'].splitlines()[0]}")
        if event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.seen.append(f"logs: {' '.join(str(a.get('value', a.get('description'))) for a in about['args'])}")
        if event == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.seen.append(f"logs: {about['entry']['text']}")


@asynccontextmanager
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """A tab of a browser of its own, which ends with it."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
        process = await asyncio.create_subprocess_exec(
            chromium, *options, f"--user-data-dir={profile}", "about:blank", stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr
        try:
            said = await asyncio.wait_for(process.stderr.readuntil(b"/devtools/"), DRAWN_S)
            port = re.findall(rb"ws://[^:]+:(\d+)/", said)[-1].decode()
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as tabs:
                    address = next(t["webSocketDebuggerUrl"] for t in await tabs.json() if t["type"] == "page")
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    yield Browser(socket)
        finally:
            process.kill()
            await process.wait()


async def look(page: Path, chromium: str) -> list[str]:
    """What is wrong with a page; a picture of each way to look at it is kept below ``PICTURES``."""
    found = []
    async with browser(chromium) as tab:
        for domain in ("Page", "Network", "Runtime", "Log"):
            await tab.call(f"{domain}.enable")
        for scheme, width in itertools.product(SCHEMES, WIDTHS):
            tab.seen.clear()
            await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            metrics = {"width": width, "deviceScaleFactor": 1, "mobile": False}
            await tab.call("Emulation.setDeviceMetricsOverride", height=900, **metrics)
            await tab.call("Page.navigate", url=page.resolve().as_uri())
            wrong = await tab.call("Runtime.evaluate", expression=FOUND, awaitPromise=True, returnByValue=True)
            height = (await tab.call("Page.getLayoutMetrics"))["cssContentSize"]["height"]
            await tab.call("Emulation.setDeviceMetricsOverride", height=min(int(height), TALLEST), **metrics)
            picture = await tab.call("Page.captureScreenshot")
            out = PICTURES / f"{page.parent.name}-{scheme}-{width}.png"
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(base64.b64decode(picture["data"]))
            found += [f"{page} ({scheme}, {width} px): {what}" for what in (*wrong["result"]["value"], *tab.seen)]
    return found


def main(pages: list[Path]) -> int:
    """Looks at pages, or without any at all of ``REPORTS``, and prints what is wrong.

    :return: 0 if nothing is, 1 if something is, 2 if there is nothing to look at or to look with.
    """
    pages = pages or sorted(REPORTS.glob("*/report.html"))
    chromium = shutil.which("chromium")
    if not chromium or not pages:
        print(
            "chromium is not installed; `apt-get install chromium`"
            if pages
            else f"no page below {REPORTS}; `make race`"
        )
        return 2
    found = [what for page in pages for what in asyncio.run(look(page, chromium))]
    print("\n".join([*found, f"{len(pages)} pages, {len(found)} faults; pictures below {PICTURES}"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main([Path(page) for page in sys.argv[1:]]))
