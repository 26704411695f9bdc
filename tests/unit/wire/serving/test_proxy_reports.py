"""Reports of proxies are bounded and numbered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sokovan.wire.serving.proxy_reports import FIRST_BYTE_BOUNDS_MS, ProxyReport, ReportAnswer, UsageEntry

USAGE: dict[str, Any] = {"sequence": 1, "minute": 29_000_000, "key_id": "t1", "deployment_id": "d1", "revision": 1}


def test_a_report_without_a_table_acknowledges_nothing() -> None:
    report = msgspec.convert({"proxy_id": "p1", "incarnation": 1}, ProxyReport)

    assert (report.epoch, report.version) == ("", 0)


def test_an_answer_without_leases_acknowledges_no_usage() -> None:
    assert ReportAnswer() == ReportAnswer(usage_sequence=0, budgets=())


def test_usage_without_a_key_is_that_of_a_public_deployment() -> None:
    assert not msgspec.convert({**USAGE, "key_id": ""}, UsageEntry).key_id


@pytest.mark.parametrize(
    "change",
    [
        {"incarnation": -1},
        {"version": -1},
        {"endpoints": [{"endpoint_id": "k1.1", "health": "fine"}]},
        {"endpoints": [{"endpoint_id": "k1.1", "last_error": "x" * 2_001}]},
        {"routes": [{"deployment_id": "d1", "in_flight": -1}]},
        {
            "routes": [
                {
                    "deployment_id": "d1",
                    "revisions": [{"revision": 1, "first_byte_counts": [0] * (len(FIRST_BYTE_BOUNDS_MS) + 2)}],
                }
            ]
        },
        {"endpoints": [{"endpoint_id": "k1.1", "began_recently": [0] * (len(FIRST_BYTE_BOUNDS_MS) + 2)}]},
        {"endpoints": [{"endpoint_id": "k1.1", "ended_recently": [1, -1]}]},
        {"usage": [{**USAGE, "sequence": 0}]},
        {"usage": [{**USAGE, "input_tokens": 1.5}]},
        {"usage": [USAGE] * 10_001},
        {"budgets": [{"key_id": "t1", "needed": -1}]},
    ],
)
def test_a_report_with_a_bad_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"proxy_id": "p1", "incarnation": 1, **change}, ProxyReport)
