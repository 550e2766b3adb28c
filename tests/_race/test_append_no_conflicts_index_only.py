"""append-no-conflicts-index-only on a real node, with Rally's own bulk runner."""

from loads import assert_all_is_accounted_for


def test_a_load_in_one_is_recorded_request_by_request(loaded, recorded):
    params = (
        "epochs:2,bulk_runner:native,bulk_size:10,ingest_percentage:50,target_docs_per_second:1,source_mode:synthetic"
    )
    assert_all_is_accounted_for(loaded, "append-no-conflicts-index-only", params, 1000, ["0"])
    recorded("append-no-conflicts-index-only")
