"""Claims of agents: their texts, and the labels that hold them."""

from __future__ import annotations

import pytest

from sokovan.domain.cluster.agent import AgentInfo, operator_labels
from sokovan.domain.cluster.agent_claims import (
    NO_CLAIMS,
    UNAPPROVED_LABEL,
    AgentClaims,
    claims_in,
    without_claims,
)
from sokovan.domain.errors import InvalidSpec
from sokovan.domain.ids import AgentId
from sokovan.domain.slots import ResourceSlot

CLAIMS = AgentClaims(ResourceSlot({"cuda.device": 2, "cpu": 4500}), {"rack": "r1", "a/b": ""})


def test_claims_are_read_from_the_labels_that_hold_them() -> None:
    marks = CLAIMS.marks()
    assert claims_in({"zone": "z", **marks}) == CLAIMS
    assert without_claims({"zone": "z", **marks}) == {"zone": "z"}
    assert (NO_CLAIMS.marks(), claims_in({"zone": "z"}), len(NO_CLAIMS)) == ({}, NO_CLAIMS, 0)


def test_each_claim_is_a_text() -> None:
    assert CLAIMS.texts() == ["slot cpu=4.5", "slot cuda.device=2", "label a/b=", "label rack=r1"]
    assert (len(CLAIMS), str(CLAIMS)) == (4, "slot cpu=4.5, slot cuda.device=2, label a/b=, label rack=r1")
    many = AgentClaims(labels={f"label{number}": "x" * 200 for number in range(30)})
    assert len(str(many)) < 1_100


def test_labels_that_hold_no_amount_are_left_out() -> None:
    odd = {UNAPPROVED_LABEL: "1", "sokovan.claim/slot/cpu": "many", "sokovan.claim/other": "1"}
    assert claims_in(odd) == NO_CLAIMS


def test_an_agent_with_claims_gets_no_kernels() -> None:
    claiming = AgentInfo(AgentId("a"), ResourceSlot({"cpu": 1}), labels=CLAIMS.marks())
    assert (claiming.approved, claiming.schedulable) == (False, False)
    assert AgentInfo(AgentId("a"), ResourceSlot({"cpu": 1})).schedulable


def test_operators_neither_write_nor_remove_claims_and_they_take_no_room_of_labels() -> None:
    with pytest.raises(InvalidSpec, match="reserved"):
        operator_labels(CLAIMS.marks(), {}, [UNAPPROVED_LABEL])
    with pytest.raises(InvalidSpec, match="reserved"):
        operator_labels({}, {"sokovan.claim/label/rack": "r2"}, ())
    many = {f"l{number}": "x" for number in range(32)}
    assert operator_labels(CLAIMS.marks(), many, ()) == {**CLAIMS.marks(), **many}
