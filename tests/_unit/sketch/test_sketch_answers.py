"""The sketch server's answers are held against the exact ones."""

import pytest
from fakes import track_of

from cluster_metrics.corpus.files import load_answers
from cluster_metrics.corpus.metrics import Metrics
from cluster_metrics.sketch.sketch_floor import check_answers

CORPUS = Metrics(nodes=2, tasks=3, rows_per_epoch=25, epochs=1)


@pytest.fixture(scope="module")
def track(tmp_path_factory):
    return track_of(CORPUS, root=tmp_path_factory.mktemp("corpus"))


def right(expected):
    """The exact answers as the sketch server gives them."""
    return {
        node: {
            field: {
                "count": exact["count"],
                "sum": exact["sum"],
                "percentiles": {p: values[0] for p, values in exact["percentiles"].items()},
            }
            for field, exact in fields.items()
        }
        for node, fields in expected.items()
    }


def test_right_answers_pass_and_each_wrong_one_is_named(track):
    expected = load_answers(track.corpora[0].documents[0].document_file)
    assert check_answers(right(expected), expected) == (0.0, [])
    for key, value, problem in (("count", 7, "N001: cpu has 7 rows, exact 13"), ("sum", 1.0, "N001: cpu_sum is 1.0")):
        answers = right(expected)
        answers["N001"]["cpu"][key] = value
        assert check_answers(answers, expected)[1][0].startswith(problem)
    answers = right(expected)
    answers["N002"]["net"]["percentiles"]["50"] *= 100
    error, problems = check_answers(answers, expected)
    assert problems[0].startswith("N002: net p50")
    missing = {"N001": right(expected)["N001"]}
    assert check_answers(missing, expected)[1] == ["answers are of 1 nodes, asked was about 2"]


@pytest.mark.parametrize("node", CORPUS.node_names())
@pytest.mark.parametrize("percent, counts", [("0", False), ("50", True), ("90", True), ("100", False)])
def test_the_error_of_answers_is_the_greatest_of_the_middle_over_all_nodes(track, node, percent, counts):
    expected = load_answers(track.corpora[0].documents[0].document_file)
    answers = right(expected)
    exact, *_, above = expected[node]["mem"]["percentiles"][percent]
    answers[node]["mem"]["percentiles"][percent] = above if counts else exact * (1 + 5e-8)
    assert check_answers(answers, expected) == (pytest.approx(above / exact - 1) if counts else 0, [])
