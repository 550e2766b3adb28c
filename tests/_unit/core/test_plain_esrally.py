import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BROUGHT_BY_ESRALLY = {"esrally", "elasticsearch", "elastic_transport", "jinja2", "ijson", "aiohttp", "psutil"}


def test_what_rally_executes_imports_nothing_that_esrally_does_not_bring():
    """Rally executes every module below the track's folder, except in folders that start with an underscore."""
    paths = [p.relative_to(ROOT) for p in ROOT.rglob("*.py")]
    loaded = [p for p in paths if not any(part.startswith(("_", ".")) for part in p.parts[:-1])]
    assert Path("track.py") in loaded
    foreign = []
    for path in loaded:
        for node in ast.parse((ROOT / path).read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            tops = {name.split(".")[0] for name in names}
            foreign += [f"{path} imports {t}" for t in tops - BROUGHT_BY_ESRALLY - set(sys.stdlib_module_names)]
    assert foreign == []
