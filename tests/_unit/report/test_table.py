"""A table is one object, whatever it is rendered as."""

import csv
import json
import math
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _tools.report import table
from _tools.report.section import Figure, Section
from _tools.report.stats import Estimate
from _tools.report.table import Column, Made, Table, Words, share, times
from _tools.report.text import error_text, started

NAN = math.nan
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ESTIMATE = Estimate(20, 20.83, 19.44, 23.71, 0.05)
TABLE = Table(
    "times",
    [
        Words("cell", "cell"),
        Column("took", "took", "ms"),
        share("part", "part"),
        times("gain", "gain"),
        Column("docs", "documents"),
        Column("ok", "right"),
    ],
    [
        {"cell": "A", "took": ESTIMATE, "part": 0.25, "gain": 1.5, "docs": 12345, "ok": True, "not shown": 1},
        {"cell": "long name", "took": None, "part": NAN, "docs": 0, "ok": False},
    ],
)


@pytest.fixture(scope="module")
def elsewhere():
    """A machine whose clock shows another time than UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC-5")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
@given(st.lists(st.integers(0, 10**14), max_size=4))
def test_times_are_written_in_utc_with_milliseconds(times):
    for at in times:
        written = datetime.fromisoformat(started(at))
        assert started(at).endswith("+00:00") and (written - EPOCH) // timedelta(milliseconds=1) == at


def test_markdown_has_words_to_the_left_and_figures_to_the_right():
    assert TABLE.markdown() == (
        "| cell      |           took ms |   part |   gain | documents | right |\n"
        "|:----------|------------------:|-------:|-------:|----------:|------:|\n"
        "| A         | 20.8 [19.4, 23.7] | 25.0 % | 1.50 × |    12,345 |   yes |\n"
        "| long name |                 – |      – |      – |         0 |    no |\n"
    )


def test_what_is_shown_is_what_markdown_shows():
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.markdown().splitlines()]
    assert rows[0] == [column.head for column in TABLE.columns]
    assert rows[2:] == TABLE.cells()


def test_the_record_keeps_values_and_units_and_is_json():
    record = TABLE.record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["key"] == "times"
    assert record["columns"][1] == {"key": "took", "label": "took", "unit": "ms"}
    took = {"n": 20, "value": 20.83, "low": 19.44, "high": 23.71, "cv": 0.05, "freedom": None}
    assert record["rows"] == [
        {"cell": "A", "took": took, "part": 0.25, "gain": 1.5, "docs": 12345, "ok": True},
        {"cell": "long name", "took": None, "part": None, "gain": None, "docs": 0, "ok": False},
    ]


def test_a_record_has_no_number_that_json_lacks():
    endless = Table("t", [Column("a", "a"), Column("b", "b")], [{"a": Estimate(1, 2.0, 1.0, math.inf, NAN), "b": NAN}])
    (row,) = endless.record()["rows"]
    assert row == {"a": {"n": 1, "value": 2.0, "low": 1.0, "high": None, "cv": None, "freedom": None}, "b": None}


def test_a_file_has_the_values_themselves_and_what_a_row_lacks_stays_empty(tmp_path):
    columns = [column for column in TABLE.columns if column.key not in ("took", "part")]
    Table("times.csv", columns, TABLE.rows).write_csv(tmp_path)
    with open(tmp_path / "times.csv", newline="") as f:
        assert list(csv.DictReader(f)) == [
            {"cell": "A", "gain": "1.5", "docs": "12345", "ok": "True"},
            {"cell": "long name", "gain": "", "docs": "0", "ok": "False"},
        ]


@given(st.lists(st.tuples(st.floats(), st.floats() | st.none() | st.integers() | st.booleans()), max_size=7))
def test_a_file_has_every_row_and_of_numbers_every_digit(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("files", numbered=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "AT_ONCE", 3)
        Table("a.csv", [Column("x", "x"), Column("y", "y")], [{"x": x, "y": y} for x, y in rows]).write_csv(folder)
    with open(folder / "a.csv", newline="") as f:
        written = list(csv.DictReader(f))
    assert len(written) == len(rows)
    for found, (x, y) in zip(written, rows):
        assert np.array_equal(float(found["x"]), x, equal_nan=True)
        if isinstance(y, float):
            assert np.array_equal(float(found["y"]), y, equal_nan=True)
        else:
            assert found["y"] == ("" if y is None else str(y))


KEYS = {"a": [1, 2, 3, 4], "b": ["x", "y,", 'z"', "\n"], "c": [0.5, None, True, 2], "d": ["p", "q", "r", "s"]}


@pytest.mark.parametrize("keys", [["a", "d"], ["a", "b", "c"], ["c", "d"], ["b"]])
def test_rows_that_are_made_are_written_as_those_that_are_kept(tmp_path, monkeypatch, keys):
    monkeypatch.setattr(table, "AT_ONCE", 3)
    made = Made(4, lambda part: {key: KEYS[key][part] for key in KEYS})
    kept = [{key: KEYS[key][i] for key in KEYS} for i in range(4)]
    assert [*made] == kept
    for key, rows in (("made", made), ("kept", kept)):
        Table(key, [Column(key, key) for key in keys], rows).write_csv(tmp_path)
    with open(tmp_path / "csv", "w", newline="") as f:
        csv.writer(f).writerows([keys, *([row[key] for key in keys] for row in kept)])
    assert len({(tmp_path / name).read_bytes() for name in ("made", "kept", "csv")}) == 1


@pytest.mark.parametrize(
    "column, value, shown",
    [
        (Column("x", "x"), 0.04567, "0.0457"),
        (Column("x", "x"), -1234.0, "−1,234"),
        (Column("x", "x"), 20, "20"),
        (Column("x", "x"), True, "yes"),
        (Column("x", "x"), None, "–"),
        (Column("x", "x"), NAN, "–"),
        (Column("x", "x"), math.inf, "–"),
        (Column("x", "x"), "as it is", "as it is"),
        (Column("x", "x"), Estimate(3, 2.0, 1.0, NAN, NAN), "2.00 [1.00, –]"),
        (share("x", "x"), Estimate(3, 0.5, -0.25, 0.75, NAN), "50.0 % [−25.0 %, 75.0 %]"),
        (times("x", "x"), Estimate(3, 2.0, 1.0, 3.0, NAN), "2.00 × [1.00, 3.00]"),
        (Column("x", "x", form=lambda x: f"{x:.2f}"), 1.005, "1.00"),
        (Words("x", "x"), "word", "word"),
        (Words("x", "x"), None, "–"),
    ],
)
def test_a_value_in_words(column, value, shown):
    assert column.shown(value) == shown


values = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats() | st.text("abc de", max_size=9)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), values), max_size=5), st.sets(st.sampled_from("abc")))
def test_every_form_has_every_row_and_column(rows, words):
    columns = [(Words if key in words else Column)(key, key) for key in "abc"]
    table = Table("t", columns, rows)
    lines = table.markdown().splitlines()
    assert len(lines) == 2 + len(rows) == 2 + len(table.cells()) == 2 + len(table.record()["rows"])
    assert len({len(line) for line in lines}) == 1, "columns are padded"
    rules = lines[1].strip("|").split("|")
    assert [rule.startswith(":") for rule in rules] == [key in words for key in "abc"]
    assert [rule.endswith(":") for rule in rules] == [key not in words for key in "abc"]
    json.dumps(table.record(), allow_nan=False)
    assert all(set(row) == set("abc") for row in table.record()["rows"])


def test_a_section_holds_texts_tables_and_figures_in_order():
    figure = Figure({}, "What is seen.")
    section = Section("Times", ["First.", TABLE, figure, "Last.\n"])
    assert section.text == f"First.\n\n{TABLE.markdown()}\nLast.\n"
    assert section.tables == [TABLE] and section.figures == [figure]
    assert section.record() == {"title": "Times", "tables": [TABLE.record()]}


@pytest.mark.parametrize(
    "error, text", [(0.00234, "0.23 %"), (0.5, "50 %"), (0.996, "100 %"), (21.2, "2,100 %"), (0.0, "0")]
)
def test_an_error_is_written_without_powers_of_ten(error, text):
    assert error_text(error) == text


@pytest.mark.parametrize("text", ["a,b", 'a"b', "a\nb", "a\rb", "", "a;b", " a ", "é"])
def test_a_text_is_written_as_csv_quotes_it(tmp_path, text):
    for rows in ([("x", "y"), (text, "z")], [("x",), ("z",), (text,)]):
        Table("a.csv", [Column(key, key) for key in rows[0]], [dict(zip(rows[0], row)) for row in rows[1:]]).write_csv(
            tmp_path
        )
        with open(tmp_path / "csv", "w", newline="") as f:
            csv.writer(f).writerows(rows)
        assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "csv").read_bytes()
