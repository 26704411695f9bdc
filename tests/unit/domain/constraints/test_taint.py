"""Taints and tolerations: which taint keeps which session off."""

from __future__ import annotations

import pytest

from sokovan.domain.constraints.taint import (
    Taint,
    Toleration,
    changed_taints,
    read_taint,
    read_toleration,
    taints_of,
    untolerated,
    without_taints,
)
from sokovan.domain.errors import InvalidSpec


def test_a_toleration_names_a_value_or_any() -> None:
    taint = read_taint("dedicated=ml")
    assert read_toleration("dedicated=ml").tolerates(taint)
    assert read_toleration("dedicated").tolerates(taint)
    assert not read_toleration("dedicated=web").tolerates(taint)
    assert not read_toleration("spot").tolerates(taint)


def test_every_taint_must_be_tolerated() -> None:
    taints = (Taint("a"), Taint("b", "1"))
    assert untolerated(taints, (Toleration("a"),)) == [Taint("b", "1")]
    assert untolerated(taints, (Toleration("a"), Toleration("b"))) == []


@pytest.mark.parametrize("text", ["", "=ml", "bad key=1", "key=" + "x" * 200])
def test_a_toleration_without_a_valid_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match="toleration"):
        read_toleration(text)


def test_taints_are_labels_under_a_prefix() -> None:
    labels = {"zone": "a", read_taint("spot").label: "", read_taint("dedicated=ml").label: "ml"}
    assert taints_of(labels) == (Taint("dedicated", "ml"), Taint("spot"))


def test_a_taint_that_cannot_be_read_still_keeps_sessions_off() -> None:
    assert taints_of({"sokovan.taint/bad key": "x"}) == (Taint("invalid"),)


@pytest.mark.parametrize("text", ["dedicated=ml", "spot"])
def test_a_taint_and_a_toleration_read_back_what_they_write(text: str) -> None:
    assert str(read_taint(text)) == text
    assert str(read_toleration(text)) == text


def test_the_effect_may_be_written_and_there_is_only_one() -> None:
    assert read_taint("spot:NoSchedule") == Taint("spot")
    assert read_taint("dedicated=ml:NoSchedule") == Taint("dedicated", "ml")
    with pytest.raises(InvalidSpec, match="the only one is NoSchedule"):
        read_taint("spot:NoExecute")


def test_a_change_of_taints_leaves_the_labels_and_the_other_taints() -> None:
    before = {"zone": "a", Taint("spot").label: ""}
    after = changed_taints(before, [Taint("dedicated", "ml")], [Taint("spot")])
    assert taints_of(after) == (Taint("dedicated", "ml"),)
    assert without_taints(after) == {"zone": "a"}
    for added, removed in (([], [Taint("never")]), ([Taint("a"), Taint("a", "1")], []), ([Taint("a")], [Taint("a")])):
        with pytest.raises(InvalidSpec):
            changed_taints(before, added, removed)
