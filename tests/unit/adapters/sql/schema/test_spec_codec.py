"""The stored form of specs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from sokovan.adapters.sql.schema.spec_codec import SMALL_TEXT, LargeSpecs, remember_spec, spec_of, spec_text
from sokovan.domain.plain_values import InvalidDocument
from sokovan.domain.session import SessionSpec
from sokovan.domain.slots import ResourceSlot
from sokovan.testing.stored_cluster import session_spec


def large() -> SessionSpec:
    """A gang of two roles whose stored form is long."""
    gang = session_spec("gang", kernels=60, name="gang", dependencies=("other",))
    workers = [replace(one, group="worker", command=("true", "x")) for one in gang.kernels[20:]]
    return replace(gang, kernels=(*gang.kernels[:20], *workers))


def test_a_spec_is_read_as_it_was_stored() -> None:
    small, many = session_spec("one", slots={"cpu": 500}), large()
    assert len(spec_text(small)) < SMALL_TEXT < len(spec_text(many))
    assert [spec_of(spec_text(one)) for one in (small, many)] == [small, many]


def test_equal_kernels_of_a_large_session_share_what_they_have() -> None:
    kernels = spec_of(spec_text(large())).kernels
    assert len({id(one.slots) for one in kernels}) == 2  # one for each role, since nothing else of a role is read
    assert all(isinstance(one.slots, ResourceSlot) for one in kernels)
    assert len({one.kernel_id for one in kernels}) == 60


@pytest.mark.parametrize("change", ["kernel_id", "slots", "name", "kernels"])
def test_a_large_spec_that_is_invalid_is_refused_with_its_problem(change: str) -> None:
    plain = msgspec.json.decode(spec_text(large()))
    if change == "kernels":
        del plain[change]
    elif change == "name":
        plain[change] = 5
    else:
        plain["kernels"][7][change] = "no name" if change == "kernel_id" else {"cpu": -1}
    with pytest.raises(InvalidDocument):
        spec_of(msgspec.json.encode(plain).decode())


def test_the_last_large_specs_are_remembered_and_no_others() -> None:
    texts = [spec_text(replace(large(), name=f"n{number}")) for number in range(3)]
    kept = LargeSpecs(2)
    first, second = kept.get(texts[0]), kept.get(texts[1])
    assert kept.get(texts[0]) is first
    kept.put(texts[2], large())
    assert kept.get(texts[0]) is first
    assert kept.get(texts[1]) is not second
    assert kept.get(texts[1]) == second


def test_a_large_spec_that_was_stored_is_not_decoded_and_a_small_one_is() -> None:
    many, one = replace(large(), name="remembered"), session_spec("remembered")
    for spec in (many, one):
        remember_spec(spec_text(spec), spec)
    assert spec_of(spec_text(many)) is many
    assert spec_of(spec_text(one)) is not one
