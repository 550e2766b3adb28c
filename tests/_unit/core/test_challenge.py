"""All records of challenges: complete, and held to the files that go by their names."""

import json
import re
from pathlib import Path

import pytest

from _tools.docs.generated import pages
from _tools.race.rally import resolved
from cluster_metrics.core.challenge import Compared, challenges, corpora, operations, parameters, rooms
from cluster_metrics.query.configurations import VARIANTS
from cluster_metrics.wire.questions import TRANSPORTS

ROOT = Path(__file__).parents[3]
RECORDS = challenges()
ROOM_OF = {record.name: room for room, records in rooms().items() for record in records}


def test_there_is_a_record_for_each_challenge_and_no_other():
    assert set(RECORDS) == {path.stem for path in (ROOT / "challenges").glob("*.json")}


@pytest.mark.parametrize("name, room", ROOM_OF.items())
def test_the_files_of_a_challenge_go_by_its_name(name, room):
    record = RECORDS[name]
    assert any((ROOT / "operations" / f"{n}.json").is_file() for n in (name, room))
    assert (ROOT / "docs" / "challenges" / f"{name}.md").is_file()
    assert (ROOT / "cluster_metrics" / room / "_report" / f"{record.module}.py").is_file()
    assert (ROOT / "tests" / "_race" / f"test_{record.module}.py").is_file()
    assert list((ROOT / "tests" / "_unit" / room).glob("test_*.py"))
    assert json.loads((ROOT / "corpora" / f"{record.corpora[0].name}.json").read_text())["name"] in corpora()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_what_its_samples_hold(name):
    record = RECORDS[name]
    for sample in record.samples.values():
        keys = [key.name for key in sample.keys]
        assert len(set(keys)) == len(keys) and all(key.text for key in sample.keys), sample.type
    compared = record.compared
    known = {key.name for key in (*record.samples[compared.sample].keys, *compared.derived)}
    assert {*compared.figures, compared.unit} <= known
    assert compared.parameter in {parameter.name for parameter in record.parameters}
    assert set(record.test_mode) <= {parameter.name for parameter in record.parameters} | {"warmup_iterations"}
    assert record.question.endswith("?") and record.minutes > 0 and record.disk_factor > 0
    assert record.leaves or record.drops, "every challenge creates an index"
    assert all(index.startswith("cluster-metrics") for index in (*record.leaves, *record.drops))


def test_a_key_is_a_text_in_all_samples_or_in_none():
    """A metrics store maps a field by what it sees first, and refuses a text where that was a number."""
    keys = [k for record in challenges().values() for of in record.operations for s in of.samples for k in s.keys]
    units = {key.name: {other.unit == "" for other in keys if other.name == key.name} for key in keys}
    assert [name for name, texts in units.items() if len(texts) > 1] == []


def test_an_interval_takes_as_many_units_as_hold_a_median_between_them_in_95_of_100_cases():
    outside = [2 * 0.5**units for units in (Compared.least, Compared.least - 1)]
    assert outside[0] <= 0.05 < outside[1]


def test_an_operation_type_is_one_thing_in_all_challenges_that_use_it():
    found = {}
    for record in RECORDS.values():
        for operation in record.operations:
            assert found.setdefault(operation.type, operation) is operation
    assert found == operations()


def test_operations_of_the_track_are_those_of_the_records():
    texts = [path.read_text() for folder in ("operations", "challenges") for path in (ROOT / folder).rglob("*.json")]
    types = {t for text in texts for t in re.findall(r'"operation-type": "([\w-]+)"', text)}
    sources = {t for text in texts for t in re.findall(r'"param-source": "([\w-]+)"', text)}
    assert types == set(operations())
    assert sources == {operation.type for operation in operations().values() if operation.params}


def test_parameters_of_the_templates_are_those_of_the_records():
    assert set(resolved("")) == set(parameters())
    for record in RECORDS.values():
        for parameter in record.parameters:
            assert parameters()[parameter.name] is parameter, "one name, one parameter"


def test_the_lists_that_the_templates_loop_over_are_those_of_the_records():
    text = (ROOT / "track.json").read_text()
    for name, choices in (("p_variants", VARIANTS), ("p_transports", TRANSPORTS)):
        listed = re.search(rf"set {name} = (\[[^\]]*\])", text)
        assert json.loads(listed.group(1)) == list(choices)


@pytest.mark.parametrize("name, text", pages().items(), ids=list(pages()))
def test_generated_pages_are_what_make_docs_writes(name, text):
    assert (ROOT / name).read_text() == text
