import json
import re

import pytest
from esrally import exceptions
from esrally.track import loader

from _tools.race.rally import resolved
from cluster_metrics.core.challenge import challenges, corpora, parameters
from cluster_metrics.core.experiment import check, corpora_of
from cluster_metrics.core.parameters import BULK_SIZE, PORT, SEGMENTS, SHARDS
from cluster_metrics.corpus.prepared import TRACK
from cluster_metrics.ingest.ingest_formats import CORPORA
from cluster_metrics.ingest.load import pace_of
from cluster_metrics.ingest.steps import STEP_NAMES
from cluster_metrics.query.configurations import CONFIGURATIONS, TIMED, VARIANTS, cells
from cluster_metrics.wire.questions import TRANSPORTS

ADDRESS, LOCAL_ADDRESS = (f"host:port{where}, a port from 1 to 65535" for where in ("", " on 127.0.0.1"))
NO_TIMES = ("٣s", "0ms", "00s", "0", 0, "-1s", "s", "3", f"{'9' * 99}h")
BY_CELL = 'an object of integers from 1 to 256 by cell, as {"3s-2r": 256}'


def defaults():
    """The defaults as track.json resolves them."""
    return resolved("")


def test_templates_and_records_have_the_same_parameters():
    assert set(defaults()) == set(parameters())


def test_parameters_are_resolved_as_rally_does():
    assert resolved("nodes:7,cluster_health:yellow") == defaults() | {"nodes": 7, "cluster_health": "yellow"}


def test_defaults_are_allowed():
    every = {"variants": list(VARIANTS), "transports": list(TRANSPORTS)}
    every |= {"configurations": list(CONFIGURATIONS), "format_corpora": list(CORPORA)}
    every |= {"ingest_steps": list(STEP_NAMES)}
    assert {name for name, value in defaults().items() if value == "all"} == set(every)
    assert check(defaults()) == defaults() | every


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("nodes", 0, "an integer from 1 to 999"),
        ("nodes", "30", "an integer from 1 to 999"),
        ("nodes", 2.5, "an integer from 1 to 999"),
        ("nodes", True, "an integer from 1 to 999"),
        ("bulk_size", 0, "an integer from 1 to 1,000,000"),
        ("cluster_health", "red", "green or yellow"),
        ("delete_foreign_index", "yes", "true or false"),
        ("delete_foreign_index", 1, "true or false"),
        ("transports", ["serial", "carrier-pigeon"], "all, or a list of serial, msearch"),
        ("transports", [], "all, or a list of serial, msearch"),
        ("transports", ["serial", "serial"], "all, or a list of serial, msearch"),
        ("variants", "D", f"all, or a list of {', '.join(VARIANTS)}"),
        ("variants", 3, f"all, or a list of {', '.join(VARIANTS)}"),
        *(("sketch_server", value, ADDRESS) for value in ("localhost", 9210, "h:99999", "h:0", "h:٩٢١٠", "é:9210")),
        *(
            ("sampler", value, f"none, or {LOCAL_ADDRESS}")
            for value in ("h:9210", "127.0.0.1:99999", "127.0.0.2:1", "127x0.0.1:1")
        ),
        *(("refresh_interval", value, "default, -1 for never, or a time such as 30s") for value in (*NO_TIMES, "-2")),
        *(("translog_sync_interval", v, "default, or a time from 100ms on such as 5s") for v in (*NO_TIMES, "99ms")),
        *(("translog_flush_threshold", v, "default, or a size such as 512mb") for v in ("0kb", "٣mb", "9" * 99 + "gb")),
        ("ingest_pipeline", "größer", "default, _none, or the name of a pipeline: ASCII letters, digits, _ . -"),
        *(
            ("cell_clients", value, BY_CELL)
            for value in (3, [], {"1s-0r": 0}, {"2s-1r": "4"}, {"1s": 1}, {"1s": 1, "1s-0r": 1}, {"1s-0r-2n": 1})
        ),
    ],
)
def test_a_value_that_is_not_allowed_gets_one_clear_line(name, value, allowed):
    with pytest.raises(exceptions.TrackConfigError) as e:
        check(defaults() | {name: value})
    assert str(e.value) == f"track parameter [{name}] is [{value}], allowed is {allowed}"


@pytest.mark.parametrize(
    "given, message",
    [
        ({"refresh_interval": "soon"}, "[refresh_interval] is [soon], allowed is default, -1 for never, or a time"),
        ({"translog_flush_threshold": "1"}, "[translog_flush_threshold] is [1], allowed is default, or a size"),
        ({"bulk_runner": "native"}, "[bulk_response] is [filtered], allowed is full with bulk_runner native"),
        (
            {"bulk_runner": "native", "bulk_response": "full", "compress_requests": True},
            "[compress_requests] is [True], allowed is false with bulk_runner native",
        ),
        ({"corpus_bytes": 1000}, "[corpus_bytes] is [1000], allowed is 0 when rows_per_epoch is given"),
        (
            {"target_docs_per_second": 1, "target_gb_per_day": 1},
            "[target_gb_per_day] is [1], allowed is 0 when target_docs_per_second is given",
        ),
        ({"index_mode": "logsdb"}, "[index_mode] is [logsdb], allowed is standard without timestamps"),
        ({"configurations": ["msearch+logsdb"]}, "[configurations] has [msearch+logsdb], whose rows must have times"),
        ({"paced": True}, "[paced] is [True], allowed is false without target_docs_per_second"),
        ({"spike_docs_per_second": 9}, "[spike_docs_per_second] is [9], allowed is 0 without target_docs_per_second"),
        ({"target_docs_per_second": 1, "spike_minutes": 2}, "[spike_minutes] is [2], allowed is 1 or more with spike"),
        (
            {"target_docs_per_second": 1, "spike_docs_per_second": 10**6, "spike_minutes": 2, "paced": True},
            "for which the load needs 120,000,120 documents but has 5,000,000",
        ),
    ],
)
def test_values_that_do_not_go_together_get_one_clear_line(given, message):
    with pytest.raises(exceptions.TrackConfigError) as e:
        check(defaults() | given)
    assert message in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize("timestamps, asked", [(True, set(CONFIGURATIONS)), (False, set(CONFIGURATIONS) - set(TIMED))])
def test_of_all_configurations_those_that_take_timestamps_are_asked_where_rows_have_them(timestamps, asked):
    values = check(defaults() | {"timestamps": timestamps})
    assert set(challenges()["query-frontier"].derived(values)["configurations"]) == asked


@pytest.mark.parametrize("named", [["hdr-1"], ["hdr-1", "production"]])
def test_production_is_always_among_the_configurations(named):
    values = check(defaults() | {"configurations": named})
    assert set(challenges()["query-frontier"].derived(values)["configurations"]) == {"hdr-1", "production"}


def test_native_takes_the_full_response_unless_told_otherwise():
    assert resolved("bulk_runner:native")["bulk_response"] == "full"


def test_never_to_refresh_may_be_given_as_a_number():
    assert check(resolved("refresh_interval:-1"))["refresh_interval"] == "-1"


@pytest.mark.parametrize("name", ["sampler", "cpu_shares"])
def test_none_may_be_given_as_a_word(name):
    assert check(resolved(f"{name}:none"))[name] == check(resolved("") | {name: "none"})[name] == "none"


@pytest.mark.parametrize(
    "name, values",
    [
        ("refresh_interval", ("default", "-1", "1ms", "30s", "5m", "1h")),
        ("translog_sync_interval", ("default", "100ms", "1s", "5m", "1h")),
        ("translog_flush_threshold", ("default", "1kb", "512mb", "10gb")),
        ("sketch_server", ("localhost:1", "10.0.0.1:9210", "my-host.example.org:65535")),
        ("sampler", ("none", "127.0.0.1:1", "127.0.0.1:65535")),
    ],
)
def test_what_is_allowed_is_taken_as_it_is(name, values):
    assert [parameters()[name].check(value) for value in values] == list(values)


def test_ports_are_those_that_there_are():
    taken = [port for port in range(100_000) if re.fullmatch(PORT, str(port))]
    assert taken == list(range(1, 65_536)) and not re.fullmatch(PORT, "080")


def test_parameters_are_checked_where_bytes_decide_the_rows_too():
    given = resolved("corpus_bytes:8300000,epochs:2")
    assert check(given | {"rows_per_epoch": 0})["rows_per_epoch"] == 0
    with pytest.raises(exceptions.TrackConfigError, match=r"bulk_size"):
        check(given | {"bulk_size": 0})


def test_bytes_decide_the_rows():
    corpus = corpora_of(check(resolved("corpus_bytes:8300000,epochs:2")))["cluster-metrics"]
    assert corpus.rows_per_epoch * 2 * corpus.mean_row_bytes == pytest.approx(8_300_000, rel=1e-3)


def test_bytes_a_day_are_a_rate():
    values = check(resolved("target_gb_per_day:864,spike_docs_per_second:7,spike_minutes:3"))
    pace = pace_of(values)
    assert pace["docs_per_second"] * corpora_of(values)["cluster-metrics"].mean_row_bytes == pytest.approx(1e7)
    assert (pace["spike_docs_per_second"], pace["spike_seconds"]) == (7.0, 180.0)


def test_a_single_choice_may_be_given_without_a_list():
    assert check(defaults() | {"variants": "D_td"})["variants"] == ["D_td"]


def test_nodes_and_tasks_are_limited_together():
    with pytest.raises(exceptions.TrackConfigError, match="nodes times tasks"):
        check(defaults() | {"nodes": 999, "tasks": 999})


@pytest.mark.parametrize(
    "values, line",
    [
        (
            {"shares_permille": [1000, 0]},
            "track parameter [shares_permille] is [[1000, 0]], allowed is a list of integers from 1 to 1,000",
        ),
        (
            {"sequential_proportions_permille": [0.2]},
            "track parameter [sequential_proportions_permille] is [[0.2]], "
            "allowed is a list of integers from 0 to 1,000",
        ),
        (
            {"text_documents": 1_000_001},
            "track parameters: text_documents is [1,000,001], allowed is a multiple of text_distinct_values, "
            "which is 1,000",
        ),
        (
            {"text_distinct_values": 100, "shares_permille": [500, 5]},
            "track parameters: shares_permille has [5], allowed is what makes whole values of the 100 "
            "text_distinct_values",
        ),
        (
            {"text_distinct_values": 16, "shares_permille": [125, 126]},
            "track parameters: shares_permille has [126], allowed is what makes whole values of the 16 "
            "text_distinct_values",
        ),
    ],
)
def test_shares_that_cannot_be_exact_get_one_clear_line(values, line):
    with pytest.raises(exceptions.TrackConfigError) as e:
        check(defaults() | values)
    assert str(e.value) == line


def test_a_single_number_may_be_given_without_a_list():
    assert check(defaults() | {"sequential_proportions_permille": 200})["sequential_proportions_permille"] == [200]


@pytest.mark.parametrize("of", [{}, {"1s-0r": 3, "3s-2r": 4}])
def test_clients_may_differ_by_cell(of):
    given = {"capacity_clients": 5, "cell_clients": of, "capacity_nodes": [2, 0]}
    source = loader.render_template_from_file(str(TRACK / "track.json"), given, complete_track_params=None)
    assert check(resolved(json.dumps(given)))["cell_clients"] == of
    seen = set()
    for challenge in json.loads(source)["challenges"]:
        for task in challenge["schedule"] if challenge["name"].startswith("capacity-") else []:
            for load in task["parallel"]["tasks"] if "parallel" in task else []:
                if load.get("name", "").startswith(("query-", "index-")) and "clients" in load:
                    cell = "-".join(load["name"].split("-")[1:3])
                    assert load["clients"] == of.get(cell, 5), (challenge["name"], load)
                    seen.add(challenge["name"])
    assert seen == {"capacity-query", "capacity-indexing", "capacity-mixed", "capacity-curve"}


def test_all_stands_for_every_choice_in_the_schedule_too():
    source = loader.render_template_from_file(
        str(TRACK / "track.json"), {"variants": "all", "transports": "all"}, complete_track_params=None
    )
    challenges = {challenge["name"]: challenge["schedule"] for challenge in json.loads(source)["challenges"]}
    tasks = [task["operation"] for task in challenges["query-decomp"]]
    first, plan = tasks.index("A-serial"), tasks.index("plan")
    assert tasks[first:plan] == [cell.name for cell in cells(list(VARIANTS), list(TRANSPORTS))]


@pytest.mark.parametrize("percentage, enough", [(100, True), (50, True), (49, False)])
def test_a_spike_needs_as_many_rows_as_are_loaded_until_it_ends(percentage, enough):
    spiked = {"target_docs_per_second": 100, "spike_docs_per_second": 900, "spike_minutes": 2, "paced": True}
    given = defaults() | spiked | {"rows_per_epoch": 60_000, "epochs": 4, "ingest_percentage": percentage}
    if enough:
        assert check(given)["spike_minutes"] == 2
        return
    with pytest.raises(exceptions.TrackConfigError, match="the load needs 120,000 documents but has 117,600: "):
        check(given)


def test_what_is_loaded_and_how_is_no_choice_of_what_runs():
    """Races that differ in it are not of one configuration."""
    loaded = {p.name for kind in corpora().values() for p in kind.parameters.values()}
    loaded |= {p.name for p in (BULK_SIZE, SEGMENTS, *SHARDS)}
    assert not [p.name for p in parameters().values() if p.selects and p.name in loaded]
