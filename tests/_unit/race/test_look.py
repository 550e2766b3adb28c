"""Looking at report pages; what takes Chromium is left out where it is not installed."""

import asyncio
import base64
import contextlib
import shutil

import pytest

from _tools.race import look

needs_chromium = pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")


@pytest.fixture(autouse=True)
def pictures(monkeypatch, tmp_path):
    monkeypatch.setattr(look, "PICTURES", tmp_path / "look")
    return tmp_path / "look"


def page(tmp_path, body):
    (tmp_path / "x").mkdir()
    found = tmp_path / "x" / "report.html"
    found.write_text(f"<!DOCTYPE html><html><body>{body}</body></html>")
    return found


@pytest.mark.parametrize("chromium, said", [(None, "apt-get install chromium"), ("chromium", "make race")])
def test_what_is_missing_is_said_in_one_line(monkeypatch, tmp_path, capsys, chromium, said):
    monkeypatch.setattr(shutil, "which", lambda name: chromium)
    monkeypatch.setattr(look, "REPORTS", tmp_path)
    assert look.main([] if chromium else [tmp_path / "report.html"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert said in line


@needs_chromium
@pytest.mark.parametrize(
    "body, fault",
    [
        ('<div style="width: 1200px; height: 9px"></div>', "(light, 390 px): the page is wider than the screen"),
        ('<img src="http://127.0.0.1:9/x.png">', "asks for http://127.0.0.1:9/x.png"),
        ("<script>console.error('told', 1)</script>", "logs: told 1"),
        ("<script>throw new Error('thrown')</script>", "Error: thrown"),
        ('<script>const drawn = 0</script><div class="chart" id="c"></div>', "c is not drawn"),
        (
            '<script>const drawn = 0</script><div class="chart" id="c"><svg width="90"><text x="80" y="9">longer</text>'
            "</svg></div>",
            "c cuts [longer] off",
        ),
    ],
)
def test_a_fault_of_a_page_is_told(tmp_path, capsys, body, fault):
    assert look.main([page(tmp_path, body)]) == 1
    assert fault in capsys.readouterr().out


@needs_chromium
def test_a_page_without_fault_leaves_four_pictures(tmp_path, pictures):
    assert look.main([page(tmp_path, "<p>Fine.</p>")]) == 0
    assert sorted(f.name for f in pictures.iterdir()) == [
        "x-dark-1280.png",
        "x-dark-390.png",
        "x-light-1280.png",
        "x-light-390.png",
    ]


class Socket:
    """Of a tab that answers each method, and tells of these events while a page is loaded."""

    def __init__(self, *events):
        self.events, self.sent, self.told = events, [], []

    async def send_json(self, message):
        answers = {
            "Runtime.evaluate": {"result": {"value": ["the page is wider than the screen"]}},
            "Page.getLayoutMetrics": {"cssContentSize": {"height": 20_000.5 if len(self.sent) < 12 else 1500.5}},
            "Page.captureScreenshot": {"data": base64.b64encode(b"picture").decode()},
        }
        self.sent.append((message["method"], message["params"]))
        if message["method"] == "Page.navigate":
            enabled = {method.split(".")[0] for method, _ in self.sent if method.endswith(".enable")}
            events = [(event, about) for event, about in self.events if event.split(".")[0] in enabled]
            self.told += [{"method": event, "params": about} for event, about in events]
        self.told.append({"id": message["id"], "result": answers.get(message["method"], {})})

    async def receive_json(self, timeout):
        return self.told.pop(0)


def test_what_is_wrong_with_a_page_is_told_of_each_way_to_look_at_it(monkeypatch, tmp_path, pictures):
    socket = Socket(
        ("Network.requestWillBeSent", {"request": {"url": "file:///x/report.html"}}),
        ("Network.requestWillBeSent", {"request": {"url": "http://elsewhere/x.png"}}),
        ("Runtime.exceptionThrown", {"exceptionDetails": {"exception": {"description": "Error: thrown\n  at x"}}}),
        ("Runtime.consoleAPICalled", {"type": "log", "args": [{"value": "nothing of note"}]}),
        ("Runtime.consoleAPICalled", {"type": "warning", "args": [{"value": "told"}, {"description": "twice"}]}),
        ("Log.entryAdded", {"entry": {"level": "info", "text": "nothing of note"}}),
        ("Log.entryAdded", {"entry": {"level": "error", "text": "refused"}}),
    )

    @contextlib.asynccontextmanager
    async def browser(chromium):
        yield look.Browser(socket)

    monkeypatch.setattr(look, "browser", browser)
    of = page(tmp_path, "")
    faults = ["the page is wider than the screen", "asks for http://elsewhere/x.png", "an error: Error: thrown"]
    faults += ["logs: told twice", "logs: refused"]
    ways = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]
    assert asyncio.run(look.look(of, "chromium")) == [
        f"{of} ({scheme}, {width} px): {fault}" for scheme, width in ways for fault in faults
    ]
    sizes = [(p["width"], p["height"]) for method, p in socket.sent if method == "Emulation.setDeviceMetricsOverride"]
    heights = [16_000, 1500, 1500, 1500]  # of the first a picture as tall as it may be
    assert sizes == [size for (_, width), tall in zip(ways, heights) for size in ((width, 900), (width, tall))]
    assert {f.name: f.read_bytes() for f in pictures.iterdir()} == {
        f"x-{scheme}-{width}.png": b"picture" for scheme, width in ways
    }


def test_a_method_that_fails_is_named():
    socket = Socket()
    socket.told.append({"id": 1, "error": {"message": "no such page"}})
    with pytest.raises(RuntimeError, match="^Page.navigate: no such page$"):
        asyncio.run(look.Browser(socket).call("Page.navigate"))


@pytest.mark.parametrize("found, code", [([], 0), (["the page is wider than the screen"], 1)])
def test_pages_are_looked_at_and_their_faults_counted(monkeypatch, tmp_path, capsys, found, code):
    async def faults(page, chromium):
        return found

    monkeypatch.setattr(look, "look", faults)
    monkeypatch.setattr(look, "REPORTS", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    for race in ("b", "a"):
        (tmp_path / race).mkdir()
        (tmp_path / race / "report.html").touch()
    assert look.main([]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"2 pages, {2 * len(found)} faults; pictures below ")
