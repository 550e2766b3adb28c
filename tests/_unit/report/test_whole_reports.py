"""Reports of whole races, word for word: of recorded races with more rounds and of made-up ones, against ``expected``.

``WRITE_EXPECTED=1`` writes those pages anew; what it changes is to be read as a user would read it.
"""

import copy
import itertools
import json
import math
import os
import re
from functools import partial
from pathlib import Path

import capacities
import ingests
import numpy as np
import pytest
from stores import Store, documents_of, recorded, reported, written

from _tools.report import write
from cluster_metrics.capacity._report.fitted import Goal
from cluster_metrics.capacity._report.model import IndexModel
from cluster_metrics.capacity._report.plan import plan
from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.index import CHECKS

EXPECTED = Path(__file__).with_name("expected")
UNITS = ("round", "pass")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
STEP_MS = 60_000
"""From one round to the next."""


def grown(challenge, rounds=24, passes=8, seed=1, spread=0.04, slower=None, race_id="grown"):
    """A recorded race with more rounds and passes: its last one again and again, all times of a sample varied by one
    factor.

    :param slower: factors by configuration.
    """
    race, documents = copy.deepcopy(recorded(challenge))
    rng, found = np.random.default_rng(seed), []
    wanted = {operation.rounds: rounds for operation in challenges()[challenge].operations if operation.rounds}
    for unit, number in zip(UNITS, (rounds, passes)):
        of = {}
        for document in documents:
            if unit == next((u for u in UNITS if u in document.get("meta", {})), None):
                of.setdefault(document["meta"][unit], []).append(document)
        one = of[max(of)] if of else []
        for at in range(1, number + 1):
            for document in copy.deepcopy(one):
                factor = float(np.exp(spread * rng.standard_normal())) * (slower or {}).get(document["operation"], 1.0)
                document["@timestamp"] += STEP_MS * at
                document["value"] *= factor
                document.pop("relative-time", None)
                for key, value in document["meta"].items():
                    if key.endswith("_ms") and isinstance(value, (int, float)):
                        document["meta"][key] = value * factor
                    elif key.endswith("_per_second"):
                        document["meta"][key] = value / factor
                document["meta"][unit] = at
                found.append(document)
    for document in documents:
        if not any(unit in document.get("meta", {}) for unit in UNITS):
            if document.get("operation-type") in CHECKS:
                known = json.loads(document["meta"]["parameters"])
                document["meta"]["parameters"] = json.dumps(known | wanted | {"passes": passes})
            found.append(document)
    return race | {"race-id": race_id}, found


def with_failures(challenge):
    """Some rounds of a configuration failed, the first samples of it and all of another."""
    race, documents = grown(challenge, race_id="failed")
    record = challenges()[challenge].compared
    cells = sorted({d["operation"] for d in documents if d.get("operation-type") == record.sample})
    for document in documents:
        if document.get("operation-type") == record.sample:
            number = document["meta"].get(record.unit, 0)
            if document["operation"] == cells[-1] or document["operation"] == cells[0] and number <= 3:
                document["meta"] |= {"success": False, "error-count": 1, "error-description": "timed out"}
    return race, documents


GROWN = ("cpu-profile", "esql-stored-fields", "ingest-decomp", "ingest-formats", "query-decomp", "query-frontier")
GROWN += ("query-profile", "sketch-floor")
RACES = {
    **{name: partial(grown, name) for name in GROWN},
    **{f"{name}-few": partial(grown, name, 4, 2) for name in ("query-decomp", "ingest-decomp")},
    "query-decomp-noisy": partial(grown, "query-decomp", spread=0.3),
    **{f"{name}-failed": partial(with_failures, name) for name in ("query-decomp", "query-frontier", "ingest-formats")},
    "ingest": lambda: documents_of(ingests.race()),
    "append-no-conflicts-index-only": lambda: documents_of(ingests.of_append(ingests.race())),
    "capacity-query": lambda: documents_of(capacities.made("x", "capacity-query", passes=6)),
    "capacity-query-idle": lambda: documents_of(capacities.made("x", "capacity-query", passes=3, busy=0.5)),
    "capacity-indexing": lambda: documents_of(capacities.made("x", "capacity-indexing", passes=6)),
    "capacity-mixed": lambda: documents_of(capacities.made("x", "capacity-mixed", passes=2)),
    "capacity-curve": lambda: documents_of(capacities.curve(seconds=20)),
}


def near(expected, found):
    """Whether two numbers differ by no more than other versions of libraries, or another CPU, round them."""
    a, b = (float(number.replace(",", "")) for number in (expected, found))
    last_digit = 10.0 ** -len(expected.partition(".")[2]) if "." in expected else 0.0
    return math.isclose(a, b, rel_tol=0.01, abs_tol=1.01 * last_digit)


def alike(expected, found):
    """Whether two lines have the same words and nearly the same numbers; columns may be as wide as they like."""
    words = [re.sub(r"(?<=[ -])[ -]+|:?-{2,}:?", "", NUMBER.sub("#", line)) for line in (expected, found)]
    return words[0] == words[1] and all(map(near, NUMBER.findall(expected), NUMBER.findall(found)))


def held(name, text):
    file = EXPECTED / f"{name}.txt"
    if os.environ.get("WRITE_EXPECTED"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    lines = itertools.zip_longest(file.read_text().splitlines(), text.splitlines(), fillvalue="")
    assert [(expected, found) for expected, found in lines if not alike(expected, found)][:3] == []


@pytest.fixture(autouse=True)
def few_documents(monkeypatch):
    """Documents cost nodes five times as much as elsewhere, so that races have fewer."""
    monkeypatch.setattr(capacities, "INDEX_COSTS", IndexModel(5e-3, 4e-3, 2.5e-3))


@pytest.mark.parametrize("name", RACES)
def test_a_report_reads_as_it_was_read(name, tmp_path):
    assert reported(*RACES[name](), tmp_path) is not None
    [page] = tmp_path.glob("*/report.md")
    held(name, page.read_text())


COMPARED = {"query-decomp": {"D_td-serial": 1.2}, "ingest-decomp": {"naive": 0.8}, "esql-stored-fields": {}}


@pytest.mark.parametrize("challenge", COMPARED)
def test_a_comparison_reads_as_it_was_read(challenge, tmp_path):
    sides = [grown(challenge, race_id="before"), grown(challenge, seed=2, slower=COMPARED[challenge], race_id="after")]
    written(Store(*sides), lambda ini: write.write_comparison(ini, ["before", "after"], tmp_path, tmp_path / "noise"))
    [page] = tmp_path.glob("*/report.md")
    held(f"compared-{challenge}", page.read_text())


def test_a_plan_reads_as_it_was_read():
    kinds = ("capacity-query", "capacity-indexing")
    races = [capacities.made(f"{kind}-{on}", kind, passes=2, on=on) for kind in kinds for on in (1, 2, 3)]
    held("plan", plan(races, Goal(docs=100, searches=400, replicas=1)))
