"""What reports hold their figures against, and the terms that they explain."""

import re

import pytest
from races import made

from _tools.report import glossary, references
from _tools.report.explained import report_of
from _tools.report.race import Race
from _tools.report.section import Section
from cluster_metrics.core.challenge import challenges
from cluster_metrics.query.configurations import VARIANTS


def test_figures_of_a_source_stand_in_a_part_of_their_own():
    race = made("x", costs={"A-serial": 20.0, "B-serial": 50.0, "C_td-serial": 300.0, "D_td-serial": 330.0})
    (section,) = references.section(race)
    assert section.blocks[0].startswith(references.PROFILING.cited)
    took = {row["what"]: row for row in section.tables[0].rows}
    assert took["A"]["reference"] == VARIANTS["A"].reference["took_ms"] and took["A"]["here"].n == 20
    shares = {row["what"]: row["reference"] for row in section.tables[1].rows}
    assert shares["unexplained"] == pytest.approx(-44 / 1199) and sum(shares.values()) == pytest.approx(1)
    for own in report_of(race).sections(race):
        assert not any("reference" in column.key for table in own.tables for column in table.columns)


@pytest.mark.parametrize("name", sorted(challenges()))
def test_references_of_a_race_without_samples_hold_no_figures(name):
    found = references.section(Race({"race-id": "x", "challenge": name}, [], {}))
    assert not [table for section in found for table in section.tables]


def test_only_terms_that_a_report_uses_are_explained():
    (terms,) = glossary.section([Section("Passes", ["Two coverages took long; a reground is no term."])])
    assert re.findall(r"\*(.+?)\*:", terms.text) == ["coverage", "pass", "took"]
    assert glossary.section([Section("Nothing", [""])]) == []
    assert list(glossary.TERMS) == sorted(glossary.TERMS, key=str.lower)
