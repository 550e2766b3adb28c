import numpy as np
import pytest
from fakes import rows, table

from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.stats import Estimate
from _tools.report.write import sheets
from cluster_metrics.ingest._report import ingest_formats as explained
from cluster_metrics.ingest.samples import CELL

SIZES = (100, 1000, 10000, 50000)
WALL_S = dict(zip(SIZES, (20.0, 10.0, 8.0, 9.0)))
BYTES = {"json": 96.0, "smile-32": 79.0}


def race(factors=None, rounds=20, gc_s=0.0):
    """A race in which all cells of a round are slowed down alike, by up to half.

    :param factors: wall time of SMILE over that of JSON, by bulk size.
    :param gc_s: of JSON, of the seconds per million documents, in pauses that SMILE has none of.
    """
    factors = factors or dict.fromkeys(SIZES, 0.9)
    samples = []
    for r, slow in enumerate(np.random.default_rng(1).uniform(1, 1.5, rounds)):
        for encoding in BYTES:
            for size in SIZES:
                wall_ms = 100 * slow * WALL_S[size] * (factors[size] if encoding != "json" else 1)  # of 100,000 rows
                meta = dict.fromkeys((key.name for key in CELL), 1.0)
                meta |= {"round": r, "rows": 100_000, "wall_ms": wall_ms, "target_cpu_ms": 2 * wall_ms, "clients": 1}
                meta |= {"corpus": "metrics", "encoding": encoding, "bulk_size": size, "requests": 100_000 / size}
                meta |= {"bytes_out": BYTES[encoding] * 1e5, "gc_ms": 100 * slow * gc_s if encoding == "json" else 0.0}
                samples.append(Sample("ingest-cell", r, f"metrics-{encoding}-{size}-by-1", wall_ms, meta))
        for encoder, s in (("json", 6.0), ("smile-32", 9.0)):
            meta = {"round": r, "corpus": "metrics", "encoder": encoder, "documents": 1000, "bytes": 93_656}
            meta["client_cpu_ms"] = s * slow
            samples.append(Sample("encode-documents", r, f"metrics-{encoder}", s, meta))
    return Race({"race-id": "x", "challenge": "ingest-formats"}, samples, {})


def claims(**options):
    """What holds, by claim."""
    return {claim: row["holds"] for claim, row in rows(explained.sections(race(**options)), "claims").items()}


GAIN = "5 % more throughput or better at all bulk sizes"
SMALL, LARGE = "larger gains at small sizes", "larger gains at large sizes"
NETWORK = "10 to 20 % less over the network"
FLAT = "less sensitive to bulk size"
GC = "most of what is saved is garbage collection"


def test_claims_follow_the_measured_ratios():
    assert claims() == {GAIN: "yes", SMALL: "no", LARGE: "no", NETWORK: "yes", FLAT: "no", GC: "no"}
    ends = claims(factors=dict(zip(SIZES, (0.8, 0.98, 0.98, 0.9))))
    assert (ends[GAIN], ends[SMALL], ends[LARGE], ends[FLAT]) == ("no", "yes", "yes", "yes")
    middle = claims(factors=dict(zip(SIZES, (1.0, 0.9, 0.8, 1.0))))
    assert (middle[GAIN], middle[SMALL], middle[LARGE], middle[FLAT]) == ("no", "no", "no", "no")


def test_garbage_collection_is_held_against_what_is_saved():
    assert claims(gc_s=1.1)[GC] == "yes"
    assert claims(gc_s=0.1)[GC] == "no"
    assert claims(factors=dict.fromkeys(SIZES, 1.1))[GC] == "undecided"


def test_few_rounds_answer_nothing_but_sizes():
    few = claims(rounds=19)
    assert few.pop(NETWORK) == "yes"
    assert set(few.values()) == {"not enough samples"}


@pytest.mark.parametrize(
    "low, high, n, expected",
    [
        (1.06, 1.2, 20, "yes"),
        (1.04, 1.2, 20, "undecided"),
        (0.9, 1.04, 20, "no"),
        (1.06, 1.2, 19, "not enough samples"),
    ],
)
def test_an_answer_takes_the_whole_interval(low, high, n, expected):
    assert explained.holds_by(Estimate(n, 1.0, low, high, 0.0), 1.05) == expected


def test_ratios_are_formed_within_rounds():
    cells = explained.Cells(race())
    (series,) = cells.compared
    gain = cells.gain(1000, series)
    assert (gain.low, gain.value, gain.high) == pytest.approx((1 / 0.9,) * 3)
    assert cells.against("target_cpu_ms", 1000, series).value == pytest.approx(0.9)
    (row, *_) = table(explained.sections(race()), "throughput").rows
    assert row["cheaper"] == row["faster"] == "improved"
    assert explained.shape(cells, series, 0).value == pytest.approx(1)
    assert explained.overall(cells, series, "wall_ms").value == pytest.approx(0.9)
    mixed = explained.Cells(race(factors=dict(zip(SIZES, (0.8, 1.25, 1.0, 1.0)))))
    assert explained.overall(mixed, series, "wall_ms").value == pytest.approx(1)


def test_encoding_is_told_beside_json_and_beside_what_is_saved():
    sections = explained.sections(race())
    encoders = {row["encoder"]: row for row in table(sections, "encoders").rows if row["documents"] == "metrics"}
    ratio = encoders["smile-32"]["ratio"]
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1.5,) * 3)
    assert "metrics, 1 client, smile-32: saves" in {s.title: s.text for s in sections}["What encoding costs"]


def test_a_race_without_another_format_has_nothing_to_explain():
    whole = race()
    assert explained.sections(Race(whole.document, [s for s in whole.samples if "json" in s.cell], {})) == []


def test_sheets_have_all_samples():
    cells, encoders = sheets(race(rounds=3))
    assert (cells.key, encoders.key) == ("es_profile_ingest_formats.csv", "es_profile_encoders.csv")
    assert (len(cells.rows), len(encoders.rows)) == (24, 6)
    for sheet in (cells, encoders):
        assert {column.key for column in sheet.columns} <= set(sheet.rows[0])


def test_the_answer_is_the_gain_over_all_sizes():
    lines = dict(answer_of(race()).lines())
    assert (
        lines["smile-32, metrics, 1 client"]
        == "1.11 × [1.11, 1.11] the throughput of JSON over all bulk sizes: improved"
    )
    assert lines["published"] == "of 6 statements: 2 yes, 4 no"


def test_formats_and_bulk_sizes_are_changes_with_what_they_cost():
    gains = {gain.change.text: gain for gain in explained.changes(race())}
    assert gains.keys() == {
        "smile-32 in place of JSON (metrics, 1 client)",
        *(f"{size:,} documents a request (metrics, 1 client)" for size in SIZES if size != 1000),
    }
    smile = gains["smile-32 in place of JSON (metrics, 1 client)"]
    assert smile.change.kinds == ("format",) and smile.times.value == pytest.approx(1 / 0.9)
    assert smile.costs["target_cpu"].value == pytest.approx(0.9)
    assert smile.costs["bytes"].value == pytest.approx(BYTES["smile-32"] / BYTES["json"])
    large = gains["10,000 documents a request (metrics, 1 client)"]
    assert large.change.kinds == ("client",) and large.against == "metrics, 1 client, 1,000 a request"
    assert large.times.value == pytest.approx(WALL_S[1000] / WALL_S[10_000])
