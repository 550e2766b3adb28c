"""What tests of make share."""

import pytest

from _tools.race.variables import VARIABLES


@pytest.fixture
def given(monkeypatch):
    """Sets these variables and no others."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def given(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return given
