"""The floors of the house: what Rally loads needs esrally alone, no import runs upwards, no room imports another."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BROUGHT_BY_ESRALLY = {"esrally", "elasticsearch", "elastic_transport", "jinja2", "ijson", "aiohttp", "psutil"}
GROUND = {"core", "corpus", "wire"}
TOP = ("_tools", "_report")


def imports_of(path):
    """The modules that a file imports anywhere in it, by absolute name; ``from . import x`` counts as ``.x``."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def loaded():
    """What Rally executes: every module below the track's folder, except in folders that start with an underscore."""
    paths = [p.relative_to(ROOT) for p in ROOT.rglob("*.py")]
    return [ROOT / p for p in paths if not any(part.startswith(("_", ".")) for part in p.parts[:-1])]


def test_what_rally_executes_imports_nothing_that_esrally_does_not_bring():
    assert ROOT / "track.py" in loaded()
    foreign = []
    for path in loaded():
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            tops = {name.split(".")[0] for name in names}
            foreign += [f"{path} imports {t}" for t in tops - BROUGHT_BY_ESRALLY - set(sys.stdlib_module_names)]
    assert foreign == []


def test_nothing_that_rally_executes_imports_reports_or_tools():
    """Neither by absolute name nor relatively, nor within a function."""
    for path in loaded():
        upwards = [name for name in imports_of(path) if set(name.split(".")) & set(TOP)]
        assert upwards == [], path


@pytest.mark.parametrize("path", sorted((ROOT / "cluster_metrics").rglob("*.py")), ids=lambda p: p.stem)
def test_rooms_stand_on_the_ground_and_import_no_other_room(path):
    room = path.relative_to(ROOT / "cluster_metrics").parts[0]
    allowed = GROUND | ({room} if room not in GROUND else set())
    entered = {
        name.split(".")[1]
        for name in imports_of(path)
        if name.startswith("cluster_metrics.") and (ROOT / "cluster_metrics" / name.split(".")[1]).is_dir()
    }
    assert entered <= allowed


def test_reports_that_all_share_know_no_room():
    for path in (ROOT / "_tools" / "report").glob("*.py"):
        entered = {name.split(".")[1] for name in imports_of(path) if name.startswith("cluster_metrics.")}
        assert entered <= GROUND, path
