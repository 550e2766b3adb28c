"""When each task of a race ran."""

from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stores import Store, recorded

from _tools.report import schedule, store
from _tools.report.race import Race, Stretch, stretches


def request(task, at, ms, kind="normal"):
    return {"task": task, "@timestamp": at, "value": ms, "sample-type": kind}


def race(*requests):
    return Race({"race-id": "x"}, [], {}, schedule=stretches(requests))


def test_requests_of_a_task_are_joined_until_another_begins():
    requests = [
        request("b", 90, 5),
        request("a", 0, 10, "warmup"),
        request("a", 20, 30),
        request("a", 30, 5),
        request("a", 99, 1),
    ]
    assert stretches(requests) == [
        Stretch("a", True, 0, 10),
        Stretch("a", False, 20, 50, 2),
        Stretch("b", False, 90, 95),
        Stretch("a", False, 99, 100),
    ]


def test_section_tells_when_each_task_ran_and_what_is_left():
    at = 1_800_000_000_000
    (section,) = schedule.sections(
        race(request("load", at, 2000), request("ask", at + 6000, 1000, "warmup"), request("ask", at + 7000, 3000))
    )
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.text.splitlines() if line.startswith("|")
    ]
    assert rows[2:] == [["load", "0", "2.00", "20.0 %", "1", "0"], ["ask", "6.00", "4.00", "40.0 %", "1", "1"]]
    assert (
        "Of 10.0 s from the first request to the end of the last, no task was at work for 4.00 s (40.0 %)"
        in section.text
    )
    assert len(section.figures) == 1


def test_a_task_that_began_before_another_may_end_after_it():
    (section,) = schedule.sections(race(request("load", 0, 10_000), request("look", 5000, 1000)))
    assert "Of 10.0 s from the first request to the end of the last, no task was at work for 0 s" in section.text


def test_tasks_that_run_at_once_have_few_bars():
    asked = [request(task, 100 * i + at, 40) for i in range(1000) for task, at in (("search", 0), ("index", 50))]
    later = [request("search", 200_000, 1000)]
    (section,) = schedule.sections(race(*asked, *later))
    (figure,) = section.figures
    data = [part["data"] for part in (figure.spec, *figure.spec.get("layer", [])) if "data" in part]
    bars = [row for one in data for row in one.get("values", []) if "kind" in row]
    assert len(bars) == 3 and {row["name"] for row in bars} == {"search", "index"}


def test_a_race_without_requests_has_no_section():
    assert schedule.sections(race()) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20))
def test_what_is_covered_is_counted_once(spans):
    units = {unit for start, length in spans for unit in range(start, start + length)}
    assert schedule.covered((start, start + length) for start, length in spans) == pytest.approx(len(units))


SOME = st.tuples(
    st.sampled_from(["a", "b", "monitor"]),
    st.integers(0, 60),
    st.integers(0, 30),
    st.sampled_from(["warmup", "normal"]),
)


@given(
    requests=st.lists(SOME, min_size=1, max_size=12), lacks=st.sampled_from([None, None, "value", "task", "@timestamp"])
)
@example(requests=[("a", 0, 30, "normal"), ("a", 5, 1, "normal")], lacks=None)
@example(requests=[("a", 0, 10, "normal"), ("a", 50, 10, "normal")], lacks=None)
@example(requests=[("a", 0, 10, "normal"), ("a", 50, 10, "normal")], lacks="@timestamp")
@example(requests=[("a", 0, 5, "warmup"), ("a", 10, 5, "normal")], lacks=None)
@example(requests=[(task, at, 1, "normal") for task, at in zip("baba", (10, 0, 20, 10))], lacks=None)
@example(requests=[(task, at, 1, "normal") for task, at in zip("abcabc", (0, 10, 2, 4, 20, 60))], lacks=None)
def test_a_task_that_no_other_ran_beside_is_told_without_reading_its_requests(requests, lacks):
    race, documents = recorded("ingest")
    documents = [document for document in documents if document["name"] != "processing_time"]
    own = [request(*one) | {"name": "processing_time"} for one in requests]
    for one in own:
        one["operation-type"] = "monitor" if one["task"] == "monitor" else "ingest-bulk"
    if lacks:
        del own[0][lacks]

    def found(many):
        with mock.patch.object(store, "MANY", many):
            race_found = store.load(Store((race, documents + own)), "last")
        return race_found.schedule, [p for p in race_found.problems if "sound" in p]

    assert found(1) == found(1000)


@pytest.mark.parametrize("many", [1, 1000])
def test_the_schedule_is_that_of_the_requests_of_the_race_alone_by_their_processing_time(many):
    document, documents = recorded("ingest")
    documents = [document for document in documents if document["name"] != "processing_time"]
    kind = {"name": "processing_time", "operation-type": "ingest-bulk"}
    own = [
        ("b", 40, 8, "normal"),
        ("a", 0, 5, "warmup"),
        ("a", 10, 5, "normal"),
        ("a", 20, 15, "normal"),
        ("a", 30, 2, "normal"),
    ]
    requests = [request(*one) | kind for one in own]
    others = [request("a", 0, 1000) | kind | {"name": "service_time", "meta": {}}]
    earlier = document | {"race-timestamp": "20200101T000000Z"}, [request("a", 12, 900) | kind]
    with mock.patch.object(store, "MANY", many):
        found = store.load(Store((document, documents + requests + others), earlier), "last")
    assert found.schedule == [
        Stretch("a", True, 0, 5),
        Stretch("a", False, 10, 35, 3),
        Stretch("b", False, 40, 48),
    ]


def test_stretches_of_one_kind_are_joined_over_gaps_that_are_shorter():
    spans = [(False, 0, 10), (False, 12, 15), (False, 13, 14), (False, 20, 30), (True, 31, 40), (True, 45, 50)]
    found = schedule.joined([Stretch("a", *span, requests=2) for span in spans], 5)
    assert found == [
        Stretch("a", False, 0, 15, 6),
        Stretch("a", False, 20, 30, 2),
        Stretch("a", True, 31, 40, 2),
        Stretch("a", True, 45, 50, 2),
    ]
    assert schedule.joined(found, 5.5) == [Stretch("a", False, 0, 30, 8), Stretch("a", True, 31, 50, 4)]
