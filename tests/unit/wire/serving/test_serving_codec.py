"""Messages of proxies survive a round trip, or are refused with one error."""

from __future__ import annotations

import pytest

from sokovan.wire.serving import serving_codec
from sokovan.wire.serving.proxy_reports import BudgetLease, EndpointReport, ProxyReport, ReportAnswer
from sokovan.wire.serving.route_table import EndpointEntry, RevisionEntry, RouteEntry, TableUpdate
from sokovan.wire.serving.serving_codec import MalformedMessage, decode_answer, decode_report, decode_update, encode


def test_every_message_survives_a_round_trip() -> None:
    endpoint = EndpointEntry("k1.1", 1, "127.0.0.1", 20_000, "ACTIVE", upstream_model="m")
    route = RouteEntry(
        deployment_id="d1",
        name="chat",
        project="p",
        owner="u",
        revisions=(RevisionEntry(1),),
        endpoints=(endpoint,),
    )
    update = TableUpdate(epoch="e", version=4, base=3, routes=(route,), removed=("d2",))
    report = ProxyReport(proxy_id="p1", incarnation=2, endpoints=(EndpointReport(endpoint_id="k1.1"),))
    answer = ReportAnswer(usage_sequence=7, budgets=(BudgetLease(key_id="t1", tokens=5, budget=9),))

    assert decode_update(encode(update)) == update
    assert decode_report(encode(report)) == report
    assert decode_answer(encode(answer)) == answer


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"epoch": "e", "version": -1}', b"[" * 100_000])
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_update(content)


def test_a_message_that_is_too_large_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_codec, "REPORT_BYTES_MAX", 10)

    with pytest.raises(MalformedMessage, match="limit is 10"):
        decode_report(encode(ProxyReport(proxy_id="p1", incarnation=1)))
