"""How a load is divided among clients, laid out over epochs and paced."""

import itertools
from types import SimpleNamespace

import pytest
from esrally import exceptions
from fakes import values
from hypothesis import given
from hypothesis import strategies as st

from cluster_metrics.core.challenge import challenges
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.ingest.account import _agree
from cluster_metrics.ingest.load import ClientParams, IngestPace, lay_out_epochs, pace_of, slices
from cluster_metrics.wire.bulk import FILTER, Backoff, BulkCounts

LOAD = {"rows_per_epoch": 2500, "epochs": 2, "bulk_indexing_clients": 3, "bulk_size": 100}


@given(st.integers(1, 5000), st.integers(1, 700), st.integers(1, 9))
def test_clients_together_send_each_row_once(rows, bulk_size, clients):
    sent = []
    for client in range(clients):
        for epoch, first, count in slices(rows, [1, 2], bulk_size, client, clients, 100):
            assert 1 <= count <= bulk_size
            sent += [(epoch, row) for row in range(first, first + count)]
    assert sorted(sent) == [(epoch, row) for epoch in (1, 2) for row in range(rows)]


@given(st.integers(1, 9), st.integers(1, 9))
def test_clients_have_as_many_requests_as_each_other_however_few_an_epoch_has(clients, bulks):
    epochs = list(range(1, 1 + 10 * clients))
    of = [sum(1 for _ in slices(100 * bulks, epochs, 100, client, clients, 100)) for client in range(clients)]
    assert of == [10 * bulks] * clients


def test_a_percentage_is_of_each_clients_requests_rounded_up():
    assert [count for _, _, count in slices(1000, [1], 100, 0, 2, 30)] == [100, 100]
    assert [first for _, first, _ in slices(1000, [1], 100, 1, 2, 1)] == [500]


def task(name, kind):
    return SimpleNamespace(name=name, operation=SimpleNamespace(type=kind, params={}), schedule=None)


def schedule():
    return [
        [task("create", "create-index")],
        [task("monitor", "monitor"), task("index-append", "ingest-bulk")],
        [task("refresh-after-index", "ingest-epoch")],
        [task("force-merge", "force-merge")],
    ]


def test_the_load_and_its_account_are_repeated_for_each_epoch():
    laid_out = lay_out_epochs(schedule(), values(**LOAD), each=True)
    load = [["monitor", "index-append"], ["refresh-after-index"]]
    assert [[t.name for t in element] for element in laid_out] == [["create"], *load, *load, ["force-merge"]]
    params = [element[-1].operation.params for element in laid_out[1:5]]
    assert [p["epochs"] for p in params] == [[1], [1], [2], [2]]
    assert [p["final"] for p in params] == [False, False, True, True]
    assert [p.get("include-in-reporting", True) for p in params] == [True, True, False, False]
    assert [p["expected"] for p in params if "expected" in p] == [2500, 2500]


def test_the_load_of_all_epochs_is_one():
    laid_out = lay_out_epochs(schedule(), values(**LOAD, ingest_percentage=10), each=False)
    assert len(laid_out) == 4
    assert laid_out[1][1].operation.params["epochs"] == [1, 2]
    assert laid_out[2][0].operation.params["expected"] == 2 * 300


@pytest.mark.parametrize(
    "runner, percentage, expected", [("slices", 100, 2500), ("native", 100, 2500), ("native", 10, 0)]
)
def test_a_whole_epoch_is_expected_whoever_reads_it_and_nothing_of_a_part_that_rally_chooses(
    runner, percentage, expected
):
    given = values(**LOAD, bulk_runner=runner, bulk_response="full", ingest_percentage=percentage)
    laid_out = lay_out_epochs(schedule(), given, each=True)
    assert [laid_out[i][0].operation.params["expected"] for i in (2, 4)] == [expected] * 2


def test_a_paced_load_has_a_spike_after_as_long_a_steady_rate():
    pace = {"docs_per_second": 100.0, "spike_docs_per_second": 1000.0, "spike_seconds": 60.0}
    operation = SimpleNamespace(params={"pace": pace, "parameters": values(bulk_size=50)})
    due = []
    for client in range(2):
        scheduler, now = IngestPace(SimpleNamespace(operation=operation, clients=2)), 0.0
        scheduler.parameter_source = ClientParams(None, [1], values(), client, 2)
        while now < 200:
            now = scheduler.next(now)
            due.append(now)
    documents = [50 * sum(start <= at < start + 60 for at in due) for start in (0, 60, 120)]
    assert documents == pytest.approx([6000, 60_000, 6000], rel=0.02)
    steady = sorted(at for at in due if at < 60)
    assert [b - a for a, b in zip(steady, steady[1:])] == pytest.approx([0.5] * (len(steady) - 1))


@pytest.mark.parametrize("compress, response, path", [(True, "filtered", FILTER), (False, "full", "")])
def test_a_client_sends_its_requests_as_the_track_parameters_say(compress, response, path):
    given = {"compress_requests": compress, "bulk_response": response, "ingest_pipeline": "mine"}
    given |= {"bulk_retries": 3, "bulk_retry_pause_ms": 200, "number_of_shards": 2}
    options = ClientParams(iter([({}, 1.0)]), [1], values(**given), 0, 1).params()["options"]
    backoff = Backoff(3, 0.2, one_by_one=True)
    assert options == {"filter_path": path, "compress": compress, "backoff": backoff, "pipeline": "mine"}


def paced(pace, clients, bulk_size, until, documents=None):
    """When requests are due that are answered at once, and how many documents each has.

    :param documents: of each request of a client, by its number; default is the size of a request.
    """
    operation = SimpleNamespace(params={"pace": pace, "parameters": values(bulk_size=bulk_size)})
    due = []
    for client in range(clients):
        scheduler, now = IngestPace(SimpleNamespace(operation=operation, clients=clients)), 0.0
        scheduler.parameter_source = ClientParams(None, [1], values(), client, clients)
        for number in itertools.count():
            if (now := scheduler.next(now)) >= until:
                break
            sent = documents(number) if documents else bulk_size
            scheduler.after_request(now, sent, "docs", {})
            due.append((now, sent))
    return sorted(due)


@pytest.mark.parametrize("rate, spike, clients", [(5000, 20_000, 4), (10_000, 40_000, 8), (2000, 10_000, 3)])
def test_as_many_documents_are_due_in_a_spike_as_were_asked_for(rate, spike, clients):
    pace = {"docs_per_second": float(rate), "spike_docs_per_second": float(spike), "spike_seconds": 60.0}
    due = paced(pace, clients, 10_000, 180.0)
    in_spike = sum(sent for at, sent in due if 60 <= at + 1e-9 < 120)
    assert in_spike == pytest.approx(60 * spike, abs=10_000 * clients)
    assert sum(sent for _, sent in due) == pytest.approx(60 * (2 * rate + spike), abs=10_000 * clients)


def test_after_a_shorter_request_less_time_passes():
    pace = {"docs_per_second": 1000.0, "spike_docs_per_second": 0.0, "spike_seconds": 0.0}
    due = paced(pace, 2, 300, 600.0, lambda number: 100 if number % 4 == 3 else 300)
    assert sum(sent for _, sent in due) == pytest.approx(600_000, rel=0.002)


def test_after_a_request_that_failed_as_much_time_passes_as_after_others():
    pace = {"docs_per_second": 1000.0, "spike_docs_per_second": 0.0, "spike_seconds": 0.0}
    due = paced(pace, 2, 300, 60.0, lambda number: 0 if number % 4 == 3 else 300)
    assert [at for at, _ in due] == pytest.approx([0.3 * number for number in range(1, 200)])


def test_a_pace_is_that_of_documents_or_else_of_their_bytes_by_day():
    row = Metrics.of(values(), False).mean_row_bytes
    for asked, documents in (
        ({}, 0),
        ({"target_docs_per_second": 700}, 700),
        ({"target_gb_per_day": 864}, 1e7 / row),
    ):
        assert pace_of(values(**asked))["docs_per_second"] == pytest.approx(documents)
    spike = {"spike_minutes": 2, "spike_docs_per_second": 900}
    found = pace_of(values(target_docs_per_second=700, **spike))
    assert (found["spike_docs_per_second"], found["spike_seconds"]) == (900, 120)


def test_a_spike_takes_minutes_and_a_pace_a_target_of_documents_or_of_bytes():
    with pytest.raises(exceptions.TrackConfigError, match=r"\[spike_minutes\] is \[0\], allowed is 1 or more"):
        values(target_docs_per_second=1, spike_docs_per_second=9)
    assert values(target_gb_per_day=1, paced=True, spike_docs_per_second=9, spike_minutes=1)["paced"]


@pytest.mark.parametrize(
    "name, given, encodings",
    [
        ("ingest", {}, ["json"]),
        ("ingest", {"bulk_runner": "native", "bulk_response": "full"}, []),
        ("append-no-conflicts-index-only", {}, ["json"]),
        ("ingest-decomp", {}, ["json", "smile-32"]),
    ],
)
def test_rows_are_encoded_beforehand_as_a_challenge_sends_them(name, given, encodings):
    assert challenges()[name].encodings(values(**given)) == encodings


def test_of_what_failed_only_that_counts_which_was_done_in_part():
    partly = {"ingest-bulk": "success-count", "ingest-decomp": "round"}
    for name in ("ingest", "append-no-conflicts-index-only", "ingest-decomp", "ingest-formats"):
        assert {kind: of.partly for kind, of in challenges()[name].samples.items()} == {
            kind: partly.get(kind) for kind in challenges()[name].samples
        }


@pytest.mark.parametrize("name", ["ingest", "append-no-conflicts-index-only"])
def test_requests_of_a_load_and_no_others_may_be_due_at_a_pace(name):
    found = {of.type: of.scheduler for of in challenges()[name].operations if of.scheduler}
    assert found == {"ingest-bulk": IngestPace}


def test_documents_that_agree_pass():
    _agree([1], 0, BulkCounts(sent=10, acknowledged=10), 10)
    _agree([1], 10, BulkCounts(sent=10, acknowledged=10), 10)


@pytest.mark.parametrize(
    "expected, acknowledged, found, message",
    [
        (10, 10, 9, "10 acknowledged (+0), 9 found after the refresh (-1)"),
        (10, 10, 11, "11 found after the refresh (+1)"),
        (10, 8, 8, "8 acknowledged (-2), 8 found after the refresh (-2); 2 of 10 documents rejected"),
        (12, 10, 10, "10 documents sent, 12 had to be (-2), 10 acknowledged"),
    ],
)
def test_documents_that_differ_end_the_race(expected, acknowledged, found, message):
    with pytest.raises(exceptions.RallyAssertionError) as e:
        _agree([3], expected, BulkCounts(sent=10, acknowledged=acknowledged), found)
    assert str(e.value).startswith("epoch 3: 10 documents sent") and message in str(e.value)
