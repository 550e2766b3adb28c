"""What is told of a profile whose samples are counted by hand: CPU time by configuration, component and method."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from fakes import rows, table
from races import made
from scipy import stats

from _tools.report import cpu, sampled
from _tools.report.components import COMPILER, GC, UNNAMED, Components
from _tools.report.race import Sample
from _tools.report.sampled import Profiling
from _tools.report.stacks import FILE, write_stacks

SEARCH = "elasticsearch[n][search][T#1];a.Run.run"
ELSE, SUM, RARE, RARER = "somebody;x.Else.do", f"{SEARCH};a.Sum.add", f"{SEARCH};a.Sum.rare", f"{SEARCH};a.Sum.rarer"
DIGEST, HDR = f"{SEARCH};a.Digest.add", f"{SEARCH};a.Hdr.add"
COMPILES, COLLECTS = "C2 CompilerThre;libjvm.so.Compile", "GC Thread#0;libjvm.so.trim"
STACKS = [COLLECTS, RARER, ELSE, SUM, RARE, HDR, DIGEST, COMPILES]
HOW = Profiling(
    round="plan",
    sampled="with",
    plain="without",
    design="",
    components=Components((("digests", r"a\.(Digest|Hdr)"), ("sums", r"a\.Sum"))),
    what="coverage",
    per="coverage",
    shown=("D", "H"),
    other="H",
    spares="H spares",
    pairs=(("absent", "D"), ("D", "absent"), ("D", "H")),
    weight=lambda meta: meta["rows"] / 1000,
)
WEIGHT = {"A": 1, "B": 1, "D": 2, "H": 1}
ROUNDS = range(1, 21)
TICK_MS = 4


def counts(name, r):
    """Samples of a configuration in a round by their stacks; 100 or so of D, which is two coverages."""
    return {
        "A": {SUM: 0 if r == 7 else 10 + r % 2},
        "B": {SUM: 15 + r % 3},
        "D": {DIGEST: 59 + r % 3, SUM: 19 + 5 * (r % 2), ELSE: 7, COMPILES: 10, COLLECTS: 3}
        | {RARE: 8 * (r == 3), RARER: r == 4},
        "H": {SUM: 8 + 5 * (r % 4 < 2), HDR: 20 + r % 2, COMPILES: 1, COLLECTS: 2},
    }[name]


def ms(name, *stacks):
    """CPU time of a coverage by round."""
    return np.array([TICK_MS / WEIGHT[name] * sum(counts(name, r).get(s, 0) for s in stacks) for r in ROUNDS])


def all_ms(name):
    return ms(name, *STACKS)


def raced(folder, rounds=ROUNDS, ratio=(), not_sampled=(), names="DHAB"):
    """A race with these samples. In between, and for 3 s before the first, the compiler works.

    :param ratio: by configuration: samples over the target's CPU time.
    :param not_sampled: by round, why its recording was lost.
    """
    lines = [f"S {i} {stack}" for i, stack in enumerate(STACKS)]
    start, events, samples = 1_800_000_000_000, [], []
    events += [(start + i, COMPILES) for i in range(0, 3000, 30)]
    at = start + 3000
    for r in rounds:
        about = {"round": r} | ({"not_sampled": not_sampled[r]} if r in not_sampled else {})
        samples.append(Sample("plan", at, "plan", 1.0, about | {"recordings": [str(folder / f"n-{r}.jfr")]}))
        for name in names:
            of, number = counts(name, r), sum(counts(name, r).values())
            whole = TICK_MS * number
            meta = {"round": r, "rows": 1000 * WEIGHT[name], "started_s": at / 1000, "wall_ms": whole / 2 + 1}
            meta |= {"window_ms": whole + 2} if name != "B" else {"wall_ms": whole + 2}
            meta |= {"target_cpu_ms": whole / dict(ratio)[name] * (0.9 + 0.2 * (r % 2))} if name in dict(ratio) else {}
            samples.append(Sample("with", at, name, 1.0, meta))
            samples.append(Sample("without", at, name, 1.0, {"round": r, "wall_ms": meta["wall_ms"] / 1.25}))
            taken = [stack for stack, n in of.items() for _ in range(n)]
            events += [(at + 1 + TICK_MS * i, stack) for i, stack in enumerate(taken)]
            at += whole + 100
            events.append((at - 50, COMPILES))
    lines += [f"E {when * 1_000_000} {STACKS.index(stack)}" for when, stack in events]
    write_stacks(folder, "\n".join(lines) + "\n")
    (folder / "d3.min.js").write_text("")
    race = made("cpu", document={"challenge": "cpu-profile"})
    race.samples[:] = samples
    return race, events


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    return raced(tmp_path_factory.mktemp("profile"), ratio={"A": 1.0, "B": 1.05, "D": 0.8, "H": 1.2})[0]


@pytest.fixture(scope="module")
def found(race):
    return sampled.sampled(race, HOW)


def test_cpu_time_is_that_of_the_samples_within_the_windows_by_coverage(found):
    assert list(found.names) == ["A", "B", "D", "H"] and list(found.rounds) == [*ROUNDS]
    assert found.profile.period_ms == TICK_MS
    for name in found.names:
        assert found.whole[name] == pytest.approx(all_ms(name)), name
    parts = {"digests": (DIGEST, HDR), "sums": (SUM, RARE, RARER), COMPILER: [COMPILES], GC: [COLLECTS]}
    names = HOW.components.names
    for name in found.names:
        for part, stacks in (parts | {UNNAMED: [ELSE]}).items():
            assert found.by_component[name][:, names.index(part)] == pytest.approx(ms(name, *stacks)), (name, part)
    assert found.share("D", "digests") == pytest.approx(ms("D", DIGEST) / all_ms("D"))
    assert found.share("A", "sums").tolist() == [1.0] * 6 + [0.0] + [1.0] * 13, "of a round without samples none"


def test_methods_are_those_that_ran_beside_compiler_and_collector_above_a_thousandth(found):
    frames, by_round = found.methods
    assert frames.names == [(name,) for name in ("x.Else.do", "a.Sum.add", "a.Sum.rare", "a.Hdr.add", "a.Digest.add")]
    for name in found.names:
        for i, stack in enumerate((ELSE, SUM, RARE, HDR, DIGEST)):
            assert by_round[name][:, i] == pytest.approx(ms(name, stack)), (name, stack)


def test_the_share_of_compiler_and_collector_is_a_mean_over_rounds_and_told_over_time(found, tmp_path):
    for told, stack in ((found.compiling(), COMPILES), (found.collecting(), COLLECTS)):
        assert told["D"] == pytest.approx(np.mean(ms("D", stack) / all_ms("D")))
        assert told["H"] == pytest.approx(np.mean(ms("H", stack) / all_ms("H"))) and told["A"] == 0
    race, events = raced(tmp_path)
    expected = []
    for name, stack in ((COMPILER, COMPILES), (GC, COLLECTS)):
        for k in range(100):
            of = [s for at, s in events if 10_000 * k <= at - events[0][0] < 10_000 * (k + 1)]
            if of:
                expected.append((name, 10.0 * k, of.count(stack) / len(of), f"{10 * k} to {10 * k + 10} s"))
    over_time = sampled.sampled(race, HOW).over_time(10)
    told = [(row["series"], row["at"], row["value"], row["where"]) for row in over_time]
    assert len(told) >= 4 and told == [(name, at, pytest.approx(value), where) for name, at, value, where in expected]


def test_the_table_of_components_has_the_means_of_those_that_are_shown_and_the_bar_their_shares(race, found):
    section = cpu.sections(race, found)[0]
    told = {
        part: {k: v.value for k, v in row.items() if k != "component"}
        for part, row in rows([section], "components").items()
    }
    expected = {"digests": (DIGEST, HDR), "sums": (SUM, RARE, RARER), GC: [COLLECTS], COMPILER: [COMPILES]}
    expected |= {UNNAMED: [ELSE], "all samples": STACKS}
    assert told == {
        part: pytest.approx({name: ms(name, *stacks).mean() for name in "DH"}) for part, stacks in expected.items()
    }
    assert f"Of D, {100 * np.mean(ms('D', ELSE) / all_ms('D')):.1f} % is unnamed." in section.text
    bars = section.figures[0].spec["data"]["values"]
    shares = {row["name"]: (row["value"], row["label"].rpartition(", ")[2]) for row in bars}
    assert shares["digests"] == (
        pytest.approx(ms("D", DIGEST).mean()),
        f"{100 * np.mean(ms('D', DIGEST) / all_ms('D')):.1f} %",
    )
    assert shares["D"] == (pytest.approx(all_ms("D").mean()), "100.0 %") and "below zero" not in shares
    assert set(shares) == {"digests", "sums", GC, COMPILER, UNNAMED, "D"}


def difference(stack):
    """H less D: the mean over rounds, and half of Student's interval."""
    off = ms("H", stack) - ms("D", stack)
    return off.mean(), stats.t.ppf(0.975, len(off) - 1) * stats.sem(off)


def test_methods_stand_by_their_cpu_time_and_what_differs_by_its_size(race, found):
    _, methods, differs = cpu.sections(race, found)
    told = table([methods], "methods").rows
    order = [DIGEST, SUM, ELSE, RARE, HDR]
    assert [row["method"] for row in told] == [stack.rpartition(";")[2] for stack in order]
    for row, stack in zip(told, order):
        assert (row["ms"].value, row["share"]) == pytest.approx(
            (ms("D", stack).mean(), ms("D", stack).mean() / all_ms("D").mean())
        )
        value, half = difference(stack)
        assert row["other"] == pytest.approx(ms("H", stack).mean())
        assert (row["off"].value, row["off"].low, row["off"].high) == pytest.approx((value, value - half, value + half))
    assert [row["verdict"] for row in told] == ["different", "not shown", "different", "not compared", "different"]
    told = table([differs], "difference D H").rows
    assert [(row["method"], row["base"], row["other"], row["verdict"]) for row in told] == [
        ("a.Digest.add", pytest.approx(ms("D", DIGEST).mean()), 0, "different"),
        ("a.Hdr.add", 0, pytest.approx(ms("H", HDR).mean()), "different"),
        ("x.Else.do", pytest.approx(14), 0, "different"),
        ("a.Sum.add", pytest.approx(ms("D", SUM).mean()), pytest.approx(ms("H", SUM).mean()), "not shown"),
    ]
    sides = " → ".join(f"{all_ms(name).mean():.0f}" for name in "DH")
    assert f"**D → H:** {sides} ms of CPU time; 3 of 4 methods are different" in differs.text
    assert [block.key for block in differs.tables] == ["difference D H"]


@pytest.mark.parametrize("rounds, judged", [(20, True), (19, False)])
def test_methods_are_judged_by_as_many_rounds_as_a_verdict_takes(tmp_path, rounds, judged):
    race, _ = raced(tmp_path, range(1, rounds + 1))
    found = sampled.sampled(race, HOW)
    _, methods, differs = cpu.sections(race, found)
    verdicts = {row["verdict"] for t in (*methods.tables, *differs.tables) for row in t.rows}
    assert ("different" in verdicts) is judged and ("not enough samples" in verdicts) is not judged
    assert ("too few rounds to judge methods" in differs.text) is not judged
    names = {finding.name for finding in cpu.findings(race, HOW)}
    assert ("H spares" in names) is judged and {"CPU time", "parts", "methods"} <= names


def test_the_answer_has_the_greatest_parts_and_methods_and_what_the_other_is_shown_to_spare(race):
    told = {finding.name: finding for finding in cpu.findings(race, HOW)}
    assert told["CPU time"].figures["ms"].value == pytest.approx(all_ms("D").mean())
    shares = {"digests": [DIGEST], "sums": [SUM, RARE, RARER], COMPILER: [COMPILES]}
    assert {name: e.value for name, e in told["parts"].figures.items()} == pytest.approx(
        {name: np.mean(ms("D", *stacks) / all_ms("D")) for name, stacks in shares.items()}
    )
    whole = all_ms("D").mean()
    named = {"Digest.add": DIGEST, "Sum.add": SUM, "Else.do": ELSE, "Sum.rare": RARE, "Hdr.add": HDR}
    assert told["methods"].text == "; ".join(
        f"{name} {100 * ms('D', stack).mean() / whole:.1f} %" for name, stack in named.items()
    )
    assert told["the sampler"].figures["ratio"].value == pytest.approx(1.25)
    assert told["H spares"].text == f"Digest.add {ms('D', DIGEST).mean():.0f} ms; Else.do 14.0 ms"


def test_what_is_compiled_unnamed_or_does_not_add_up_is_warned_of_where_it_is(race):
    told = [(w.kind, w.seen) for w in cpu.warnings(race, HOW)]
    shares = [f"{100 * np.mean(ms('D', stack) / all_ms('D')):.1f} %" for stack in (COMPILES, ELSE)]
    cpu_ms = {
        name: all_ms(name) / by * np.array([0.9 + 0.2 * (r % 2) for r in ROUNDS])
        for name, by in (("D", 0.8), ("H", 1.2))
    }
    ratios = {name: f"{100 * all_ms(name).sum() / of.sum():.1f} %" for name, of in cpu_ms.items()}
    assert told == [
        ("compiled", f"still being compiled while measured (D {shares[0]} of its CPU time)"),
        ("unnamed", f"{shares[1]} of D's CPU time has no component"),
        *(("sum", f"samples of {n} add up to {ratios[n]} of the target's CPU time") for n in "DH"),
    ]


def test_samples_stand_beside_the_cpu_time_of_each_configuration_that_has_it_in_all_rounds(race, found, tmp_path):
    section = cpu.sums(found)
    assert {row["at"] for row in section.figures[0].spec["data"]["values"]} == {0, 10, 20}
    told = rows([section], "sum")
    assert list(told) == ["A", "B", "D", "H"]
    factor = np.array([0.9 + 0.2 * (r % 2) for r in ROUNDS])
    for name, ratio in (("B", 1.05), ("D", 0.8), ("H", 1.2)):
        of = all_ms(name) / ratio * factor
        row = told[name]
        assert (row["ms"].value, row["cpu"]) == pytest.approx((all_ms(name).mean(), of.mean())), name
        assert row["ratio"].value == pytest.approx(all_ms(name).sum() / of.sum()), name
        residual = all_ms(name) - row["ratio"].value * of
        half = 1.96 * stats.sem(residual) / of.mean()
        assert row["ratio"].high - row["ratio"].low == pytest.approx(2 * half, rel=0.25), name
        assert row["compiler"] == pytest.approx(np.mean(ms(name, COMPILES) / all_ms(name))), name
        assert row["gc"] == pytest.approx(np.mean(ms(name, COLLECTS) / all_ms(name))), name
    assert (told["A"]["cpu"], told["A"]["ratio"]) == (None, None), "a round without CPU time"
    partly, _ = raced(tmp_path, ratio={"D": 1.0, "H": 1.0})
    (last,) = (s for s in partly.samples if (s.kind, s.cell, s.meta["round"]) == ("with", "H", 20))
    del last.meta["target_cpu_ms"]
    found = sampled.sampled(partly, HOW)
    assert np.flatnonzero(np.isnan(found.cpu_ms("H"))).tolist() == [19]
    told = rows([cpu.sums(found)], "sum")
    assert [name for name in told if told[name]["ratio"]] == ["D"]


def test_sheets_have_every_component_and_method_of_every_configuration(race):
    components, methods = cpu.sheets(race, HOW)
    assert len(components.rows) == 4 * len(HOW.components.names) and len(methods.rows) == 4 * 5
    of = {(row["configuration"], row["component"]): (row["cpu_ms"], row["half_ms"]) for row in components.rows}
    half = stats.t.ppf(0.975, 19) * stats.sem(ms("D", DIGEST))
    assert of["D", "digests"] == pytest.approx((ms("D", DIGEST).mean(), half)) and of["A", "digests"] == (0, 0)


def test_files_for_other_viewers_have_the_mean_of_a_coverage_by_stack(race, found):
    told = dict(cpu.files(race, HOW))
    assert set(told) == {"flames.html", "cpu.speedscope.json", *(f"cpu-{name}.collapsed.txt" for name in "ABDH")}
    lines = dict(line.rsplit(" ", 1) for line in told["cpu-D.collapsed.txt"].splitlines())
    assert int(lines["thread search;a.Run.run;a.Digest.add"]) == pytest.approx(1000 * ms("D", DIGEST).mean(), abs=1)
    assert int(lines["thread C2 CompilerThre;libjvm.so.Compile"]) == pytest.approx(20_000)
    scope = json.loads(told["cpu.speedscope.json"])
    (profile,) = (p for p in scope["profiles"] if p["name"] == "H")
    names = [[scope["shared"]["frames"][i]["name"] for i in sample] for sample in profile["samples"]]
    weights = {stack[-1]: weight for stack, weight in zip(names, profile["weights"])}
    assert weights == pytest.approx(
        {s.rpartition(";")[2]: ms("H", s).mean() for s in (SUM, HDR, COMPILES, COLLECTS)}, rel=1e-3
    )
    assert (profile["unit"], profile["endValue"]) == ("milliseconds", pytest.approx(all_ms("H").mean(), rel=1e-3))
    assert '"start":["H","D"]' in told["flames.html"] and f"CPU time of race {race.id}" in told["flames.html"]


def test_without_the_one_that_is_asked_about_there_is_no_finding_on_cpu_time(tmp_path):
    race, _ = raced(tmp_path, names="BHA")
    assert [finding.name for finding in cpu.findings(race, HOW)] == ["the sampler"]
    assert '"start":["A",""]' in dict(cpu.files(race, HOW))["flames.html"]
    found = sampled.sampled(race, replace(HOW, shown=("Z", "Y"), other="Y"))
    section, *_ = cpu.sections(race, found)
    assert section.figures[0].caption == "CPU time of A, per coverage."
    assert set(rows([section], "components")["sums"]) == {"component", "A", "B", "H"}


def test_rounds_without_a_recording_are_told_by_their_reason_and_count_for_nothing(tmp_path):
    race, _ = raced(tmp_path, not_sampled={20: "it ended", 4: "it ended", 9: "cut off"})
    found = sampled.sampled(race, HOW)
    assert list(found.rounds) == [r for r in ROUNDS if r not in (4, 9, 20)]
    assert found.whole["D"] == pytest.approx(np.delete(all_ms("D"), [3, 8, 19]))
    told = [
        "no CPU profile of 2 rounds, from round 4 on: it ended",
        "no CPU profile of 1 rounds, from round 9 on: cut off",
    ]
    assert sampled.missing(race, HOW) == told
    assert [w.seen for w in cpu.warnings(race, HOW) if w.kind == "no profile"] == told


def test_what_a_recording_lacks_is_told_and_one_of_two_machines_is_no_profile(tmp_path):
    race, _ = raced(tmp_path)
    with gzip.open(tmp_path / FILE, "at") as f:
        f.write("X n-3.jfr: cut\n")
    assert sampled.missing(race, HOW) == ["The recording n-3.jfr: cut"]
    sampled._read.cache_clear()
    elsewhere = tmp_path / "elsewhere"
    race.of("plan")[-1].meta["recordings"].append(str(elsewhere / "n.jfr"))
    assert sampled.sampled(race, HOW) is None and sampled.missing(race, HOW) == []
    assert sampled.folders_of(race, HOW) == [tmp_path, elsewhere]


@pytest.mark.parametrize("lost", ["samples", "rounds", "common", "stacks"])
def test_a_race_without_samples_in_common_has_no_profile(tmp_path, lost):
    race, _ = raced(tmp_path, not_sampled=dict.fromkeys(ROUNDS, "it ended") if lost == "rounds" else {})
    if lost in ("samples", "common"):
        gone = {
            "samples": lambda s: s.kind == "with",
            "common": lambda s: s.cell == ("D" if s.meta["round"] % 2 else "H"),
        }
        race.samples[:] = [s for s in race.samples if not gone[lost](s)]
    if lost == "stacks":
        write_stacks(tmp_path, "S 0 main;a.B.c\n")
    assert sampled.sampled(race, HOW) is None
    assert (
        {f.name for f in cpu.findings(race, HOW)} <= {"the sampler"}
        and cpu.sheets(race, HOW) == []
        and list(cpu.files(race, HOW)) == []
    )
