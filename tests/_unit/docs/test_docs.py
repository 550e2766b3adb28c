"""The pages that people read: every link leads somewhere, and none is longer than a page should be."""

import re
import runpy
import subprocess
from pathlib import Path

import pytest

from _tools.docs import generated
from _tools.docs.generated import pages

ROOT = Path(__file__).parents[3]
LONGEST = {"README.md": 200}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def written():
    """The Markdown files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split() if (ROOT / name).is_file()]


def anchors(text):
    """The anchors of a page's headings, as they are made on the sites that show Markdown."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def broken(name):
    """The links of a page that lead nowhere within the repository."""
    text = (ROOT / name).read_text()
    for match in LINK.finditer(re.sub(r"^ {4}.*$", "", text, flags=re.M)):
        target = match.group(1) or match.group(2)
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        if not path.exists() or anchor and anchor not in anchors(path.read_text()):
            yield target


def test_make_docs_writes_the_pages_and_says_which(monkeypatch, capsys):
    monkeypatch.setattr(generated, "write_pages", lambda: ["docs/parameters.md", "README.md"])
    runpy.run_module("_tools.docs")
    assert capsys.readouterr().out == "written to docs/parameters.md\nwritten to README.md\n"


@pytest.mark.parametrize("name", written())
def test_links_lead_somewhere(name):
    assert list(broken(name)) == []


@pytest.mark.parametrize("name", sorted(set(written()) - set(pages()) | {"README.md"}))
def test_pages_are_short_enough_to_be_read(name):
    if not name.startswith("docs/results/"):
        assert len((ROOT / name).read_text().splitlines()) <= LONGEST.get(name, 250)


def test_a_broken_link_is_found(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("# A\n\n[b](b.md) [top](#a) [gone](#b) [c](c.md) [out](https://example.org/x)\n")
    (tmp_path / "c.md").write_text("# C\n")
    monkeypatch.setitem(broken.__globals__, "ROOT", tmp_path)
    assert list(broken("a.md")) == ["b.md", "#b"]


def test_every_page_can_be_reached_from_the_readme():
    reached, todo = set(), ["README.md"]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        for match in LINK.finditer((ROOT / name).read_text()):
            target = (match.group(1) or match.group(2)).partition("#")[0]
            path = ((ROOT / name).parent / target).resolve()
            if target and "://" not in target and path.suffix == ".md" and path.is_file():
                todo.append(str(path.relative_to(ROOT)))
    assert sorted(set(written()) - reached) == []
