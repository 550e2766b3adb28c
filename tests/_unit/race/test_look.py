"""Looking at report pages; what takes Chromium is left out where it is not installed."""

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
