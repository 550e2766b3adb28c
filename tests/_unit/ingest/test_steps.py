import asyncio
import importlib.util
import json
from dataclasses import asdict, replace

import pytest
from esrally import exceptions
from fakes import Sampling, track_of, values
from hypothesis import given
from hypothesis import strategies as st

from _tools.profile.control import Control
from _tools.race.served import served
from cluster_metrics.core.sampler import Sampler
from cluster_metrics.corpus.encoded import metrics_bodies
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.ingest import ingest_decomp
from cluster_metrics.ingest.cell import INDEX
from cluster_metrics.ingest.challenge import CHALLENGES
from cluster_metrics.ingest.ingest_decomp import IngestDecompParams, Rows, encoder
from cluster_metrics.ingest.steps import DESIGNS, NAIVE, NATIVE, REQUESTS, SLICES, STEP_NAMES, STEPS, clients
from cluster_metrics.wire import smile
from cluster_metrics.wire.bulk import Backoff
from cluster_metrics.wire.questions import PRODUCTION

PACKAGES = ["json", pytest.param("orjson", marks=pytest.mark.skipif(not importlib.util.find_spec("orjson"), reason=""))]


def changed(before, after):
    return {key for key, value in asdict(after).items() if value != asdict(before)[key]}


def test_a_step_changes_nothing_else_than_it_says():
    cumulative, alone = (clients(design, orjson=True, timestamps=True) for design in DESIGNS)
    before = NAIVE
    for step in STEPS:
        assert changed(cumulative[before], cumulative[step.name]) == set(step.change)
        assert changed(alone[NAIVE], alone[step.name]) == set(step.change)
        before = before if step.alone else step.name
    settings = [s.change["settings"] for s in STEPS if "settings" in s.change and not s.alone]
    assert cumulative[before].settings == {k: v for one in settings for k, v in one.items()}
    assert cumulative[before].unindexed == ("cpu", "mem", "net", "epoch")
    assert alone["epoch-unindexed"].unindexed == ("epoch",)
    assert alone["translog-async"].settings == settings[-1]


@pytest.mark.parametrize("design", DESIGNS)
def test_without_orjson_its_step_is_left_out_and_nobody_uses_it(design):
    assert set(clients(design, True, True)) - set(clients(design, False, True)) == {"orjson"}
    assert all(c.dumps == "json" for c in clients(design, False, True).values())


@pytest.mark.parametrize("design", DESIGNS)
def test_without_timestamps_no_index_has_a_mode_that_takes_them(design):
    assert set(clients(design, True, True)) - set(clients(design, True, False)) == {"time-series", "logsdb"}
    assert {c.mode for c in clients(design, True, False).values()} == {"standard"}


@pytest.mark.parametrize(
    "design, wanted, cells",
    [
        ("cumulative", ["constant-action"], [NAIVE, "orjson", "constant-action"]),
        (
            "cumulative",
            ["epoch-unindexed", "clients-2"],
            [NAIVE, "slices", "clients-2", "values-unindexed", "epoch-unindexed"],
        ),
        ("cumulative", ["logsdb", "no-source"], [NAIVE, "smile", "logsdb", "no-source"]),
        ("one-at-a-time", ["clients-4"], [NAIVE, "clients-4"]),
    ],
)
def test_wanted_steps_run_beside_what_they_are_held_against(design, wanted, cells):
    every, found = (clients(design, True, True, of) for of in (STEP_NAMES, wanted))
    assert list(found) == cells
    assert found == {name: every[name] for name in cells}


@pytest.mark.parametrize("dumps", PACKAGES)
@pytest.mark.parametrize("constant_action", [False, True])
@given(st.lists(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.text()), min_size=1))
def test_a_body_is_an_action_and_a_row_in_turn(dumps, constant_action, rows):
    body = encoder(dumps, constant_action)(rows)
    assert body.endswith(b"\n")
    lines = [json.loads(line) for line in body.split(b"\n")[:-1]]
    assert lines[0::2] == [{"index": {}}] * len(rows)
    assert lines[1::2] == rows


MAPPINGS = {
    "dynamic": "strict",
    "properties": dict.fromkeys(["epoch", "cpu", "mem", "net"], {"type": "long"}) | {"node": {"type": "keyword"}},
}


CORPUS = Metrics(rows_per_epoch=2500, epochs=1)


@pytest.fixture
def track(tmp_path):
    indices = {"cluster-metrics": {"mappings": MAPPINGS}}
    return track_of(CORPUS, root=tmp_path, encodings=["json", "smile-32"], indices=indices)


@pytest.mark.parametrize("design", DESIGNS)
def test_all_cells_send_the_same_rows(track, design):
    path = track.corpora[0].documents[0].document_file
    with open(path) as f:
        rows = [json.loads(f.readline()) for _ in range(2400)]
    cells = [cell for cell, _ in Rows(CORPUS, 1, path, 2400).cells(design)]
    assert [cells[0].name, *(cell.name for cell in cells[-3:])] == [NAIVE, SLICES, REQUESTS, NATIVE]
    in_smile = metrics_bodies(CORPUS, 1, path, "smile-32").body(0, 2400)
    encodings = {name: client.encoding for name, client in clients(design, True, False).items()}
    for cell in cells:
        for _ in range(2):  # a cell is run once a round
            firsts = range(0, 2400, cell.bulk_size)
            body = b"".join(cell.body(i, min(cell.bulk_size, 2400 - i)) for i in firsts)
            if encodings.get(cell.name) == "smile-32":
                assert body == in_smile
                continue
            lines = body.splitlines()
            action = {"_index": INDEX} if cell.name == NATIVE else {}
            assert set(lines[0::2]) == {lines[0]} and json.loads(lines[0]) == {"index": action}
            assert [json.loads(line) for line in lines[1::2]] == rows


def test_steps_with_an_index_mode_have_its_settings_and_keep_source(tmp_path):
    corpus = replace(CORPUS, timestamps=True)
    track = track_of(corpus, root=tmp_path, encodings=["json", "smile-32"])
    path = track.corpora[0].documents[0].document_file
    cells = {cell.name: cell for cell, _ in Rows(corpus, 1, path, 100).cells("cumulative")}
    for name, mode in (("time-series", "time_series"), ("logsdb", "logsdb")):
        body = cells[name].shaped({"settings": cells[name].settings, "mappings": MAPPINGS})
        assert body["settings"]["index.mode"] == mode and body["settings"]["index.codec"] == "default"
        assert "_source" not in body["mappings"] and "@timestamp" in body["mappings"]["properties"]
    body = cells["no-source"].shaped({"settings": cells["no-source"].settings, "mappings": MAPPINGS})
    assert not {"index.mode", "index.codec"} & set(body["settings"])


@pytest.mark.parametrize(
    "name, kind",
    [
        ("keep-alive", "client"),
        ("clients-2", "client"),
        ("refresh-off", "settings"),
        ("translog-async", "settings"),
        ("values-unindexed", "index"),
        ("smile", "format"),
        ("time-series", "index"),
        ("no-source", "index"),
    ],
)
def test_a_step_is_a_change_of_the_kind_of_what_it_changes(name, kind):
    (step,) = (step for step in STEPS if step.name == name)
    change = step.as_change
    assert (change.kinds, change.text, change.price) == ((kind,), step.text, step.price)


@pytest.mark.parametrize("read", [699, 701])
def test_rows_that_rally_reads_and_were_not_due_end_the_race(track, monkeypatch, read):
    path = track.corpora[0].documents[0].document_file
    monkeypatch.setattr(Rows, "_rally_bodies", lambda self, count: iter([(read, b"")]))
    cell = next(cell for cell, _ in Rows(CORPUS, 1, path, 2400).cells(DESIGNS[0]) if cell.name == NATIVE)
    with pytest.raises(exceptions.RallyAssertionError, match=f"Rally read {read} rows, 700 were due"):
        cell.body(0, 700)


def test_each_round_has_every_cell_in_an_order_of_its_own(track):
    params = {"parameters": values(rows_per_epoch=2500, cell_rows=700), "warmup-iterations": 1}
    source = IngestDecompParams(track, params).partition(0, 1)
    rounds = [source.params() for _ in range(3)]
    assert [r["round"] for r in rounds] == [0, 1, 2]
    assert all(mappings == MAPPINGS for r in rounds for _, _, mappings in r["cells"])
    found = {cell.name: rows for cell, rows, _ in rounds[0]["cells"]}
    assert [found[name] for name in (NAIVE, "slices", "clients-2", "clients-4")] == [700, 700, 1400, 2500]
    assert [found[name] for name in (SLICES, REQUESTS, NATIVE)] == [700] * 3
    last = {cell.name: cell for cell, _, _ in rounds[0]["cells"]}[STEPS[-1].name]
    unindexed = {"type": "long", "index": False}
    assert last.shaped({"settings": {"a": 1}, "mappings": MAPPINGS}) == {
        "settings": {"a": 1},
        "mappings": {
            "dynamic": "strict",
            "properties": dict.fromkeys(["epoch", "cpu", "mem", "net"], unindexed) | {"node": {"type": "keyword"}},
            "_source": {"enabled": False},
        },
    }
    orders = [[cell.name for cell, _, _ in r["cells"]] for r in rounds]
    other = IngestDecompParams(track, params | {"parameters": params["parameters"] | {"seed": 7}}).params()
    assert other["round"] == 0 and [cell.name for cell, _, _ in other["cells"]] != orders[0]
    assert len({tuple(sorted(order)) for order in orders}) == 1
    assert len({tuple(order) for order in orders}) == 3


def test_a_round_has_the_wanted_steps_and_no_cell_that_is_none(track):
    params = {
        "parameters": values(rows_per_epoch=2500, cell_rows=700, ingest_steps="clients-4"),
        "warmup-iterations": 0,
    }
    cells = IngestDecompParams(track, params).params()["cells"]
    assert {cell.name: (cell.clients, rows) for cell, rows, _ in cells} == {
        NAIVE: (1, 700),
        "clients-2": (2, 1400),
        "clients-4": (4, 2500),
    }


def test_cells_that_are_sampled_must_be_raced():
    sampled = {"sampler": "127.0.0.1:1", "sampled_cells": [NAIVE, "slices"]}
    assert values(**sampled, ingest_steps=["clients-2"])["sampled_cells"] == [NAIVE, "slices"]
    allowed = r"\['naive', 'slices'\], allowed with these ingest_steps and timestamps:false is naive, cl"
    with pytest.raises(exceptions.TrackConfigError, match=allowed):
        values(**sampled, ingest_steps=["clients-8"])
    assert values(sampled_cells=[NAIVE, "slices"], ingest_steps=["clients-8"])
    timed = sampled | {"sampled_cells": ["time-series"]}
    assert values(**timed, timestamps=True)["sampled_cells"] == ["time-series"]
    with pytest.raises(
        exceptions.TrackConfigError, match=r"\['time-series'\], allowed with .* timestamps:false is naive"
    ):
        values(**timed)


@pytest.fixture
def ran(track, monkeypatch):
    """What a round runs, and what its sampler is told, in order, with the result of the round."""

    def ran(sampler):
        told = []

        async def run_cells(es, number, cells, settings, foreign):
            told.append([(cell.name, cell.kind) for cell, _, _ in cells])
            return [{"cell": (cell.name, cell.kind), "success": True} for cell, _, _ in cells]

        async def tell(self, what):
            told.append(what)
            await told_really(self, what)

        told_really = Sampler.tell
        monkeypatch.setattr(ingest_decomp, "run_cells", run_cells)
        monkeypatch.setattr(Sampler, "tell", tell)
        found = values(rows_per_epoch=2500, cell_rows=2000, sampler=sampler, sampled_cells=[NAIVE, "smile"])
        source = IngestDecompParams(track, {"parameters": found, "warmup-iterations": 1})
        result = asyncio.run(ingest_decomp.IngestDecompRunner()(None, source.params()))
        return told, result

    return ran


def test_cells_that_are_sampled_run_once_more_while_the_sampler_records(ran):
    sampling = Sampling()
    with served(Control(sampling)) as address:
        told, result = ran(address)
        assert sampling.told == ["start", "stop"] * 2
    plain, _ = ran("none")
    assert sorted(cells for cells in told if cells in plain) == sorted(plain)
    others = [cells for cells in told if cells not in plain]
    assert others[::3] == ["start"] * 2 and others[2::3] == ["stop"] * 2
    assert sorted(name for ((name, _),) in others[1::3]) == [NAIVE, "smile"]
    assert {kind for ((_, kind),) in others[1::3]} == {ingest_decomp.SAMPLED}
    assert result["recordings"] == ["/kept/1.jfr", "/kept/2.jfr"] and "not_sampled" not in result
    assert [[timing["cell"]] for timing in result["dependent_timing"]] == [of for of in told if isinstance(of, list)]


def test_without_a_sampler_nothing_is_sampled_and_nothing_missed(ran):
    told, result = ran("none")
    assert len(told) == len(clients("cumulative", True, False)) + 2
    assert not {"recordings", "not_sampled"} & set(result)


def test_where_the_sampler_fails_the_cells_run_without_it_and_the_round_says_why(ran):
    with served(Control(Sampling(fails_at=2))) as address:
        told, result = ran(address)
    assert [what for what in told if isinstance(what, str)] == ["start", "stop", "start"]
    assert result["recordings"] == ["/kept/1.jfr"] and result["not_sampled"].endswith("was started anew")


def test_clients_that_encode_share_the_rows_of_one():
    alone = clients("one-at-a-time", True, False)
    assert {name: client.rows(700, 2500) for name, client in alone.items()} == dict.fromkeys(alone, 700)


def test_a_cell_has_no_more_rows_than_an_epoch():
    derived = {record.name: record.derived for record in CHALLENGES}
    for name, parameter in (("ingest-decomp", "cell_rows"), ("ingest-formats", "format_rows")):
        found = [derived[name](values(rows_per_epoch=2500, **{parameter: rows})) for rows in (2501, 2000)]
        assert [of[parameter] for of in found] == [2500, 2000]


def test_every_cell_is_asked_for_the_documents_of_each_production_query(track):
    path = track.corpora[0].documents[0].document_file
    asks = [PRODUCTION.bodies([node], 1)[0]["query"] for node in CORPUS.node_names()]
    for cell, _ in Rows(CORPUS, 1, path, 100).cells("cumulative"):
        assert cell.asks == asks


@pytest.mark.parametrize("foreign", [False, True])
def test_a_cell_sends_as_its_client_says_and_again_as_the_track_parameters_say(track, foreign):
    given = {"rows_per_epoch": 2500, "cell_rows": 100, "bulk_retries": 3, "number_of_shards": 2}
    given |= {"delete_foreign_index": foreign}
    params = IngestDecompParams(track, {"parameters": values(**given), "warmup-iterations": 0}).params()
    cells = {cell.name: cell for cell, _, _ in params["cells"]}
    assert (params["settings"]["index.number_of_shards"], params["foreign"]) == (2, foreign)
    types = {"json": "application/x-ndjson", "smile-32": smile.CONTENT_TYPE}
    for name, client in clients("cumulative", True, False).items():
        cell = cells[name]
        sent = {"filter_path": client.filter_path, "backoff": Backoff(3, 0.5, one_by_one=True)}
        sent |= {"content_type": types[client.encoding]} if client.sliced else {}
        assert cell.send.keywords == sent
        assert (cell.clients, cell.bulk_size) == (client.clients, client.bulk_size)
        assert (cell.settings, cell.keep_alive) == (client.settings, client.keep_alive)


@pytest.mark.parametrize("constant, encoded", [(True, 3), (False, 6)])
def test_an_action_line_is_encoded_for_each_row_unless_it_is_a_constant(monkeypatch, constant, encoded):
    calls, dumps = [], json.dumps
    monkeypatch.setattr(json, "dumps", lambda value: calls.append(value) or dumps(value))
    body = encoder("json", constant)
    calls.clear()
    assert body([{"a": 1}] * 3) == b'{"index": {}}\n{"a": 1}\n' * 3 and len(calls) == encoded
