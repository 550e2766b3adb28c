"""The ranking of changes by the races in a real metrics store, all of them in test mode."""

import json

from conftest import WORK, make


def test_changes_are_ranked_by_a_real_store_and_test_mode_is_refused_unless_asked_for(indexed):
    refused = make("changes")
    assert "[ERROR] there is no race whose changes could be ranked" in refused.stdout and refused.returncode
    assert "ran in test mode" in refused.stdout
    ranked = make("changes", TEST_MODE=1, RACE="first")
    assert ranked.returncode == 0, ranked.stdout[-3000:]
    assert "none of its figures means anything" in ranked.stdout
    record = json.loads((WORK / "reports" / "changes" / "report.json").read_text())
    assert "query-decomp" in {race["challenge"] for race in record["races"]}
    [table] = [t for s in record["sections"] for t in s["tables"] if t["key"] == "changes"]
    decomp = {row["change"]: row for row in table["rows"] if row["race"].startswith("query-decomp ")}
    assert decomp.keys() == {"by msearch", "HDR, serial", "by msearch and HDR"}
    assert decomp["by msearch"]["bytes"]["value"] > 0 and decomp["by msearch"]["target_cpu"] is not None
