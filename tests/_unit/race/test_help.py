"""What make prints of itself."""

import os
import shutil

from _tools.race.help import entry


def test_no_line_is_wider_than_the_terminal(monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback: os.terminal_size((60, 24)))
    first, *more = entry("NAME", "`word` " * 40, 6).splitlines()
    assert first.startswith("  NAME   word word") and all(line.startswith(" " * 9 + "word") for line in more)
    assert {len(line) for line in (first, *more)} == {58}, "as wide as words of four letters fill 60"
