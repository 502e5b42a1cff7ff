from __future__ import annotations

import json

import jsonschema
import pytest

from flowcheck.flow.facts import Facts, Open, Phase
from flowcheck.report.json_writer import to_json
from flowcheck.report.model import Report, json_schema
from tests.report.fakes import GRAPH, WORKER, carried, facts, flow, healthy, mode, report

SAMPLES = {
    "proved": facts(*healthy()),
    "violated": facts(*healthy("Other"), flow(asked=[carried("LAST", WORKER, 372)], condition="x is true")),
    "unproved": facts(left=[Open("q", "größe unknown → 漢字", None, "entry")]),
    "graph": facts(
        *healthy("Other"), flow(Phase.VERIFY, asked=[mode("unknown", (GRAPH, 1, "n"), reason="why")], consumed=False)
    ),
    "empty": facts(),
}

TOP_LEVEL = [
    "schema",
    "tool",
    "source",
    "scenario",
    "pairing",
    "summary",
    "flows",
    "capture",
    "intake",
    "probe",
    "classes",
    "assumptions",
    "findings",
    "unproved",
    "call_graph",
    "stats",
]


@pytest.mark.parametrize("known", SAMPLES.values(), ids=SAMPLES)
def test_a_report_is_valid_under_its_own_schema_and_reads_back_as_itself(known: Facts) -> None:
    made = report(known)
    document = json.loads(to_json(made))
    jsonschema.Draft202012Validator(json_schema()).validate(document)
    assert Report.model_validate(document) == made
    assert list(document) == TOP_LEVEL
    assert document["schema"] == "flowcheck.report/1"
    assert document["pairing"] is None
    assert document["capture"] == []


def test_the_schema_is_a_schema_and_is_strict() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(to_json(report(SAMPLES["violated"])))
    document["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)
    assert sorted(schema["required"]) == sorted(TOP_LEVEL)


def test_keys_of_flows_and_findings_are_those_of_the_design() -> None:
    document = json.loads(to_json(report(SAMPLES["violated"])))
    flow_keys = {"phase", "path", "worker", "file", "line", "condition", "mode", "verdict", "evidence"}
    assert flow_keys <= set(document["flows"][0])
    finding_keys = {
        "rule", "name", "severity", "verdict", "message", "file", "line", "column", "symbol", "condition", "evidence",
        "fix", "fingerprint",
    }  # fmt: skip
    assert finding_keys <= set(document["findings"][0])
    assert set(document["source"]) >= {"kind", "root", "version", "digest"}
    assert document["summary"] == {
        "proved": 3,
        "violated": 1,
        "unproved": 0,
        "findings": {"error": 1, "warning": 0, "note": 0},
        "hidden": 0,
        "classes": None,
    }


def test_the_same_facts_give_the_same_bytes() -> None:
    assert to_json(report(SAMPLES["violated"])) == to_json(report(SAMPLES["violated"]))
