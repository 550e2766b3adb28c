"""Samples of stacks: read, joined to windows of time, and held against each other."""

import json
import re

import numpy as np
import pytest
from scipy import sparse
from scipy import stats as reference

from _tools.report import flames, stacks
from _tools.report.components import COMPILER, GC, IDLE, UNNAMED, Components
from _tools.report.stacks import Profile
from cluster_metrics.query._report.components import SEARCHES

WORKER = "elasticsearch[target-1][search_worker][T#1]"
TICK = 4_000_000


@pytest.fixture
def read(tmp_path):
    def read(text):
        stacks.write_stacks(tmp_path, text)
        return stacks.read_stacks(tmp_path)

    return read


def test_threads_of_a_pool_and_classes_made_at_run_time_are_one(read):
    lambdas = ["a.B$$Lambda/0x00007f1c0c123456.run", "a.B$$Lambda/0x00007f1c0cabcdef.run"]
    lines = [f"S {i} elasticsearch[n-{i}][search_worker][T#{i}];{frame}" for i, frame in enumerate(lambdas)]
    profile = read("\n".join([*lines, "E 10 0", "E 20 1"]) + "\n")
    assert list(profile.of) == [0, 0] and len(profile.stacks) == 1
    assert profile.stacks[0][0] == "thread search_worker"


def test_what_is_around_all_else_comes_first_and_what_no_name_is_for_last():
    names = Components((("inner", "a"), ("other", "b")), (("around", "c"), ("other", "d"))).names
    assert names[:3] == ("around", "other", "inner") and names[-1] == UNNAMED and len(set(names)) == len(names)


def test_a_sample_stands_for_the_gap_of_a_thread_that_runs_without_a_pause(read):
    busy = [f"E {10**18 + i * TICK} 0" for i in range(20)]
    other = [f"E {10**18 + i * 5 * TICK + 1_000_000} 1" for i in range(4)]
    other += [f"E {10**18 + 10**9 + i * TICK // 4} 1" for i in range(3)]  # woken twice in one period
    profile = read("\n".join(["S 0 main;a.B.c", "S 1 other;a.B.c", *busy, *other]) + "\n")
    assert profile.period_ms == 4.0
    assert list(profile.at) == sorted(profile.at), "whatever order they were recorded in"


def test_threads_of_a_pool_are_sampled_each_by_itself(read):
    threads = [f"S {i} elasticsearch[n][search_worker][T#{i}];a.B.c" for i in range(2)]
    busy = [f"E {10**18 + tick * TICK + i * TICK // 2} {i}" for tick in range(20) for i in range(2)]
    profile = read("\n".join([*threads, *busy]) + "\n")
    assert len(profile.stacks) == 1 and profile.period_ms == 4.0


def test_a_recording_that_cannot_be_read_is_told(read):
    profile = read("S 0 main;a.B.c\nE 10 0\nX r.jfr: java.io.EOFException: cut\n")
    assert profile.problems == ["The recording r.jfr: java.io.EOFException: cut."] and len(profile.at) == 1


def made(rng, costs, rounds=20, tick=TICK):
    """A profile whose coverages have these mean numbers of samples, by configuration and stack; and their windows."""
    known = sorted({stack for of in costs.values() for stack in of})
    at, of, windows, now = [], [], {name: [] for name in costs}, 10**18
    for _ in range(rounds):
        for name, levels in costs.items():
            start = now
            for stack, level in levels.items():
                for _ in range(rng.poisson(level)):
                    at.append(now)
                    of.append(known.index(stack))
                    now += tick
            windows[name].append((start, now))
            now += 10 * tick
    return Profile(known, np.array(at), np.array(of), tick / 1e6), windows


STACKS = [(f"thread {WORKER}", "a.Run.run", f"a.Leaf.l{i}") for i in range(40)]


def test_samples_belong_to_the_window_that_they_were_taken_in():
    profile = Profile([("t", "a"), ("t", "b")], np.array([10, 20, 30, 40]), np.array([0, 1, 1, 0]), 4.0)
    assert profile.counted([(10, 30), (30, 41), (50, 60)]).toarray().tolist() == [[1, 1], [1, 1], [0, 0]]


def test_frames_add_up_to_what_they_call():
    profile, windows = made(np.random.default_rng(1), {"x": dict.fromkeys(STACKS, 3)})
    counted = profile.counted(windows["x"])
    paths = stacks.frames(profile, stacks.paths)
    times = paths.times(counted, profile.period_ms)
    by_name = dict(zip(paths.names, times.T))
    whole = counted.sum(axis=1) * profile.period_ms
    assert by_name[STACKS[0][:1]] == pytest.approx(whole) and by_name[STACKS[0][:2]] == pytest.approx(whole)
    assert sum(by_name[stack] for stack in STACKS) == pytest.approx(whole)


def compared(profile, base, other):
    leaves = stacks.frames(profile, stacks.leaf)
    times = [leaves.times(profile.counted(windows), profile.period_ms) for windows in (base, other)]
    return leaves, stacks.differences(*times, max(float(t.sum(axis=1).mean()) for t in times))


def test_of_what_is_equal_few_frames_are_called_different():
    called = 0
    for seed in range(40):
        profile, windows = made(np.random.default_rng(seed), {"x": dict.fromkeys(STACKS, 4)}, rounds=40)
        _, off = compared(profile, windows["x"][::2], windows["x"][1::2])
        assert off.compared.all()
        called += bool(off.shown.any())
    assert called <= 5, "5 % of 40 are expected; more than 5 would be in 1 case of 25"


def test_a_planted_difference_is_found_and_no_more():
    costs = dict.fromkeys(STACKS, 4)
    profile, windows = made(np.random.default_rng(7), {"x": costs, "y": costs | {STACKS[3]: 10}}, rounds=40)
    leaves, off = compared(profile, windows["x"], windows["y"])
    assert [leaves.names[i] for i in np.flatnonzero(off.shown)] == [("a.Leaf.l3",)]
    i = int(np.argmax(off.shown))
    assert off.value[i] == pytest.approx(24, abs=5) and 0 < off.half[i] < 6


def test_frames_that_are_too_small_on_both_sides_are_not_compared():
    profile, windows = made(np.random.default_rng(3), {"x": {STACKS[0]: 400, STACKS[1]: 1}})
    leaves, off = compared(profile, windows["x"][::2], windows["x"][1::2])
    assert [leaves.names[i] for i in np.flatnonzero(off.compared)] == [STACKS[0][-1:]]
    assert not off.shown.any()


@pytest.mark.parametrize(
    "stack, expected",
    [
        ((WORKER, "org.elasticsearch.tdigest.MergingDigest.add", "java.util.Arrays.sort"), "t-digest"),
        ((WORKER, "org.elasticsearch.tdigest.AVLGroupTree.add"), "t-digest"),
        ((WORKER, "org.elasticsearch.search.aggregations.metrics.TDigestState.add"), "t-digest"),
        (
            (WORKER, "org.elasticsearch.tdigest.MergingDigest.add", "org.apache.lucene.util.ArrayUtil.grow"),
            "t-digest",
        ),
        ((WORKER, "org.HdrHistogram.DoubleHistogram.recordValue"), "HDR"),
        ((WORKER, "org.elasticsearch.search.aggregations.metrics.SumAggregator$1.collect"), "sums"),
        ((WORKER, "org.apache.lucene.search.ConjunctionDISI.doNext"), "filtering"),
        ((WORKER, "org.apache.lucene.codecs.lucene90.Lucene90DocValuesProducer$4.longValue"), "reading doc values"),
        ((WORKER, "org.elasticsearch.search.aggregations.LeafBucketCollector.collect"), "aggregation framework"),
        (("thread transport_worker", "io.netty.channel.nio.NioEventLoop.run"), "HTTP"),
        (("thread transport_worker", "io.netty.channel.nio.NioEventLoop.run", "libc.so.6.epoll_wait"), IDLE),
        (("thread C2 CompilerThre", "libjvm.so.Compile::Optimize"), COMPILER),
        (("thread C1 CompilerThre", "libjvm.so.Compilation::compile_method"), COMPILER),
        (("thread G1 Conc", "libjvm.so.G1ConcurrentMark"), GC),
        (("thread GC Thread", "libjvm.so.G1ParScanThreadState::trim_queue"), GC),
        (("thread somebody", "com.example.A.b"), UNNAMED),
    ],
)
def test_a_stack_belongs_to_the_innermost_frame_that_is_named(stack, expected):
    assert SEARCHES.of(stack) == expected and expected in SEARCHES.names


def test_the_page_needs_nothing_else_and_holds_any_two(tmp_path):
    costs = dict.fromkeys(STACKS, 4)
    profile, windows = made(np.random.default_rng(7), {"x": costs, "y": costs | {("t</script>",): 9}, "z": costs})
    paths = stacks.frames(profile, stacks.paths)
    times = {name: paths.times(profile.counted(w), profile.period_ms) for name, w in windows.items()}
    pairs = {p: stacks.differences(times[p[0]], times[p[1]], 600.0) for p in flames.pairs_of(list(times))}
    (tmp_path / "d3.min.js").write_text("/* </script> */")
    page = flames.page("title", "coverage", paths, times, pairs, ("x", "y"), tmp_path / "d3.min.js")
    assert page.count("</script>") == 4 and not re.search(r"(src|href)=", page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert set(data["pairs"]) == {"x|y", "x|z", "y|z"}
    frames = data["frames"]
    assert all(parent is None or parent < place for place, (parent, _) in enumerate(frames))
    stacks_of = {place: (name,) for place, (parent, name) in enumerate(frames) if not parent}
    for place, (parent, name) in enumerate(frames):
        stacks_of.setdefault(place, (*stacks_of.get(parent, ()), name))
    for (base, other), of in pairs.items():
        known = {paths.names[i]: (of.half[i], of.shown[i]) for i in np.flatnonzero(of.compared)}
        found = {
            stacks_of[int(place)]: (half, shown) for place, (half, shown) in data["pairs"][f"{base}|{other}"].items()
        }
        assert found == {stack: (pytest.approx(half, rel=1e-2), shown) for stack, (half, shown) in known.items()}
    for name, ms in data["ms"].items():
        roots = [place for place, (parent, _) in enumerate(frames) if parent == 0]
        assert ms[0] == pytest.approx(sum(ms[place] for place in roots), rel=1e-3), name
        of_rounds = profile.counted(windows[name]).sum(axis=1) * profile.period_ms
        assert ms[0] == pytest.approx(np.mean(of_rounds), rel=1e-3), name


def test_other_viewers_get_the_same_time():
    profile, windows = made(np.random.default_rng(7), {"x": dict.fromkeys(STACKS, 4)})
    ms = profile.counted(windows["x"]).mean(axis=0) * profile.period_ms
    lines = flames.collapsed(profile, ms).splitlines()
    scope = json.loads(flames.speedscope("title", profile, {"x": ms}))["profiles"][0]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == pytest.approx(1000 * ms.sum(), abs=40)
    assert sum(scope["weights"]) == pytest.approx(ms.sum(), rel=1e-3)


@pytest.mark.parametrize("least, names", [(0.01, "ac"), (0.0, "abc"), (0.06, "a")])
def test_frames_are_kept_that_have_the_share_in_some_configuration(least, names):
    every = stacks.Frames([(name,) for name in "abcd"], sparse.csr_array(np.eye(4)))
    times = {"x": np.array([[4.0, 0.5, 0, 0], [16, 0.5, 0, 0]]), "y": np.array([[0, 0.5, 5.0, 0]])}
    found = stacks.kept(every, times, least, {"x": 100.0, "y": 100.0})
    assert found.names == [(name,) for name in names]
    assert found.having.todense().argmax(axis=0).tolist() == ["abcd".index(name) for name in names]


def test_differences_of_frames_have_the_interval_of_student():
    rng = np.random.default_rng(1)
    base, other = rng.uniform(1, 2, (8, 2)), rng.uniform(1, 3, (8, 2))
    found, off = stacks.differences(base, other, 5.0), other - base
    low, high = reference.t.interval(0.95, 7, off.mean(axis=0), reference.sem(off))
    assert found.value == pytest.approx(off.mean(axis=0)) and found.half == pytest.approx((high - low) / 2)
    assert found.p == pytest.approx(reference.ttest_rel(other, base).pvalue) and found.n == 8
