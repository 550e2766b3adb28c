"""The bare command, ``esrally race`` without a pipeline, so that Rally provisions its own node, offline."""

import contextlib
import os
import re
import socket
import subprocess

from conftest import ROOT, make


def test_bare_esrally_provisions_the_embedded_elasticsearch(loaded, search):
    prepared = make("offline", HEAP="512m")
    assert prepared.returncode == 0, prepared.stdout
    command = prepared.stdout.splitlines()[-1]
    assert re.search(
        r"/esrally race --track-path=\S+ --challenge=query-decomp --target-hosts=127.0.0.1:19200$", command
    )
    if os.geteuid() == 0:  # as nobody, who gets nothing else that root has
        who = "setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs env "
        assert command.startswith(who) and "caps" not in command
    more = "--test-mode --race-id=bare --include-tasks=tag:setup,check-index,D_td-serial --on-error=abort"
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # Rally's own port is taken, by this or by another connection
            taken.bind(("127.0.0.1", 39200))
        race = subprocess.run(f"{command} {more}", shell=True, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert race.returncode == 0, race.stdout[-3000:] + race.stderr[-3000:]
    assert "Traceback" not in race.stderr
    (document,) = search("rally-races-*", {"query": {"term": {"race-id": "bare"}}})["hits"]["hits"]
    assert document["_source"]["pipeline"] == "from-distribution"
    assert document["_source"]["car"] == ["defaults"]
    assert document["_source"]["cluster"]["distribution-version"] == "8.17.2"
    tasks = {row["task"] for row in document["_source"]["results"]["op_metrics"]}
    assert "D_td-serial" in tasks
