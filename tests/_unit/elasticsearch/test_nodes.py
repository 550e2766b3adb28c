"""What a node is set to, told of one that ends at once."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from _tools.elasticsearch import cpu, nodes


@pytest.fixture
def launcher(monkeypatch):
    """A launcher of nodes that write no log and end; where the user nobody can enter, unlike pytest's own folder."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    place.chmod(0o755)
    launcher = nodes.Launcher(place / "_work", place / "downloads")
    home = launcher.root / "elasticsearch-8.0.0"
    for folder in ("config", "lib", "bin"):
        (home / folder).mkdir(parents=True)
    (home / "config" / "jvm.options").write_text("")
    (home / "bin" / "elasticsearch").write_text("#!/bin/sh\n")
    (home / "bin" / "elasticsearch").chmod(0o755)
    monkeypatch.setattr(nodes, "install", lambda *_: home)
    monkeypatch.setattr(cpu, "make_group", lambda name, cores: "")
    yield launcher
    shutil.rmtree(place)


@pytest.mark.parametrize("cores, processors", [(0, None), (0.4, 1), (1, 1), (1.5, 2), (2.2, 3)])
def test_a_node_that_gets_a_part_of_a_core_reckons_with_all_of_it(launcher, cores, processors):
    with pytest.raises(nodes.NodeError, match="node some-1 ended at start"):
        launcher.start("some", cores=cores)
    lines = (launcher.root / "some-1" / "config" / "elasticsearch.yml").read_text().splitlines()
    found = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in lines)}
    assert found.get("node.processors") == processors and found.get("node.attr.cpu_cores") == (cores or None)
