"""The log lines are the same everywhere, varied, and plain enough for JSON."""

import hashlib
import json
import re

from cluster_metrics.corpus.loglines import BLOCK_LINES, lines, records

COMBINED = re.compile(
    r'\d+(\.\d+){3} - - \[\d\d/Nov/2026(:\d\d){3} \+0000\] "[A-Z]+ /\S* HTTP/1\.1" \d{3} \d+ "\S+" '
    r'"Mozilla[^"]+" 0\.\d{3} [0-9a-f]{32}'
)


def test_lines_are_the_same_on_every_host():
    digest = hashlib.sha256("\n".join(lines(42, 3)).encode()).hexdigest()
    assert digest == "ba2fa13ff6503ebe7c351ef5046fea8146385b796401a1b836cd02af48388efc"
    assert lines(42, 3) != lines(42, 4) and lines(42, 3) != lines(43, 3)


def test_lines_are_in_the_combined_format_with_time_and_id():
    found = lines(1, 0)
    assert len(found) == len(set(found)) == BLOCK_LINES
    assert all(COMBINED.fullmatch(line) for line in found)


def test_lines_need_nothing_escaped_in_json_but_their_quotes():
    for line in lines(1, 0)[:1000]:
        assert json.dumps(line) == '"' + line.replace('"', '\\"') + '"'


def test_popularity_is_skewed():
    clients = [record[0] for record in records(1, 0)]
    most = max(clients.count(client) for client in set(clients))
    assert most > 20 * len(clients) / len(set(clients))
