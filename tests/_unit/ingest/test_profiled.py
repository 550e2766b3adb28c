"""What a report of ingest-decomp says of the samples of CPU time that were taken of some of its cells."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import rows, table

from _tools.report import sampled
from _tools.report.answer import answer_of
from _tools.report.race import Race, Sample
from _tools.report.stacks import write_stacks
from _tools.report.write import files
from cluster_metrics.ingest._report import ingest_decomp as explained
from cluster_metrics.ingest._report.profiled import INGEST
from cluster_metrics.ingest.cell import SAMPLE
from cluster_metrics.ingest.ingest_decomp import SAMPLED
from cluster_metrics.ingest.samples import CELL
from cluster_metrics.ingest.steps import NAIVE

WRITER = "elasticsearch[target-1][write][T#1]"
ENGINE = f"{WRITER};org.elasticsearch.action.bulk.TransportShardBulkAction.x;org.elasticsearch.index.engine.E.index"
PARSE = f"{WRITER};org.elasticsearch.index.mapper.DocumentParser.parseDocument"
POSTINGS = f"{ENGINE};org.apache.lucene.index.IndexingChain.processField;org.apache.lucene.util.BytesRefHash.add"
TRANSLOG = f"{ENGINE};org.elasticsearch.index.translog.Translog.add;libc.so.6.__GI_fdatasync"
STORED = f"{ENGINE};org.apache.lucene.index.StoredFieldsConsumer.writeField"
MERGE = "elasticsearch[target-1][merge][T#1];org.apache.lucene.index.IndexWriter.merge"
MERGED = f"{MERGE};org.apache.lucene.codecs.lucene90.Lucene90DocValuesConsumer.merge"
STACKS = [PARSE, POSTINGS, TRANSLOG, STORED, MERGED]
COSTS = {
    NAIVE: {PARSE: 60, POSTINGS: 40, TRANSLOG: 50, STORED: 20, MERGED: 10},
    "translog-async": {PARSE: 60, POSTINGS: 40, STORED: 20, MERGED: 10},
    "no-source": {PARSE: 60, POSTINGS: 40, MERGED: 10},
}
"""Mean numbers of samples, 4 ms each, of 10,000 rows by their stacks. A cell of no-source has twice as many."""
TICK_MS, ROWS = 4.0, {NAIVE: 10_000, "translog-async": 10_000, "no-source": 20_000}


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    """A race of these costs, whose cells take as long with the sampler as without."""
    folder, rng, now, samples = tmp_path_factory.mktemp("cpu"), np.random.default_rng(1), 1_800_000_000.0, []
    lines = [f"S {i} {stack}" for i, stack in enumerate(STACKS)]
    for r in range(1, 31):
        about = {"round": r, "recordings": [str(folder / f"target-1-{r:05}.jfr")]}
        samples.append(Sample("ingest-decomp", int(1000 * now), "ingest-decomp", 1.0, about))
        for name, levels in COSTS.items():
            taken = {stack: rng.poisson(level * ROWS[name] / 10_000) for stack, level in levels.items()}
            ms = TICK_MS * sum(taken.values())
            for kind in (SAMPLE, SAMPLED):
                meta = dict.fromkeys((key.name for key in CELL), 1.0) | {"round": r, "wall_ms": ms}
                meta |= {"rows": ROWS[name], "started_s": now, "window_ms": ms + 500, "target_cpu_ms": ms}
                samples.append(Sample(kind, int(1000 * now), name, ms, meta))
                for i in range(sum(taken.values()) if kind == SAMPLED else 0):
                    stack = np.searchsorted(np.cumsum([taken.get(s, 0) for s in STACKS]), i, "right")
                    lines.append(f"E {int((now + 0.3 + i * TICK_MS / 1000) * 1e9)} {stack}")
                now += ms / 1000 + 1
    write_stacks(folder, "\n".join(lines) + "\n")
    (folder / "d3.min.js").write_text("")
    sampled._read.cache_clear()
    return Race({"race-id": "x", "challenge": "ingest-decomp"}, samples, {}, {"sampler": "127.0.0.1:1"})


def test_components_are_told_by_a_thousand_rows(race):
    found = rows(explained.sections(race), "components")
    for component, number in (("mapping documents", 60), ("inverted index", 40), ("translog", 50), ("merges", 10)):
        for name in (NAIVE, *(["no-source"] if component != "translog" else [])):
            estimate = found[component][name]
            assert estimate.low <= number * TICK_MS / 10 <= estimate.high, (component, name)
    assert found["translog"]["translog-async"].value == 0
    assert "doc values" not in found, "they were merged"


def test_what_a_step_spares_is_different_and_nothing_else_is(race):
    sections = explained.sections(race)
    assert "What the sampler costs" in {section.title for section in sections}
    for (base, other), spared in (
        ((NAIVE, "translog-async"), {"libc.so.6.__GI_fdatasync"}),
        (("translog-async", "no-source"), {"org.apache.lucene.index.StoredFieldsConsumer.writeField"}),
    ):
        off = table(sections, f"difference {base} {other}").rows
        assert {row["method"] for row in off if row["verdict"] == "different"} == spared


def test_the_answer_names_the_parts_and_the_page_of_flame_graphs_is_written(race):
    answer = answer_of(race)
    found = {finding.name: finding.text for finding in answer.findings}
    assert found["CPU time"].startswith("naive: 7") and found["CPU time"].endswith("of the target a thousand rows")
    assert found["parts"].startswith("mapping documents 3") and found["translog-async spares"].startswith("libc.so.6.")
    names = [name for name, _ in files(race)]
    assert "flames.html" in names and f"cpu-{NAIVE}.collapsed.txt" in names


def test_without_a_sampler_a_report_has_no_word_of_it(race):
    plain = Race(race.document, [s for s in race.samples if s.kind != SAMPLED], {}, {})
    assert not {"components", "methods"} & {block.key for s in explained.sections(plain) for block in tables(s)}
    assert not files(plain)


def test_a_sampler_that_failed_is_warned_of_before_all_else(race):
    samples = [replace(s, meta=s.meta | {"not_sampled": "its node has ended"}) for s in race.samples]
    lost = replace(race, samples=[s for s in samples if s.kind != SAMPLED])
    assert next(explained.warnings(lost)).seen == "no CPU profile of 30 rounds, from round 1 on: its node has ended"
    assert "What is missing of the profile" in {section.title for section in explained.sections(lost)}


def tables(section):
    return [block for block in section.blocks if hasattr(block, "columns")]


@pytest.mark.parametrize(
    "stack, component",
    [
        (
            f"{WRITER};org.apache.lucene.index.IndexWriter.flush;org.apache.lucene.util.bkd.BKDWriter.x",
            "writing segments",
        ),
        (f"{ENGINE};org.apache.lucene.index.PointValuesWriter.addPackedValue", "points"),
        (f"{ENGINE};org.apache.lucene.codecs.lucene90.Lucene90PointsWriter.writeField", "points"),
        (f"{PARSE};com.fasterxml.jackson.core.json.UTF8StreamJsonParser.nextToken", "request and response"),
        ("C2 CompilerThre;libjvm.so.Compile::Optimize", "compiler"),
    ],
)
def test_a_stack_belongs_to_who_asked_for_it(stack, component):
    thread, *frames = stack.split(";")
    assert INGEST.of((f"thread {thread}", *frames)) == component
