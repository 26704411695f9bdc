"""The size of a fleet of fake agents."""

import pytest

from sokovan.cli.errors import CommandError
from sokovan.cli.local.fake_fleet import fake_fleet


def test_agents_and_gpus_are_read() -> None:
    assert (fake_fleet(None), fake_fleet("64x8"), fake_fleet("10000x64")) == (None, (64, 8), (10_000, 64))


@pytest.mark.parametrize(("text", "nearest"), [("1000000x8", "10000x8"), ("64x65", "64x64"), ("99999x99", "10000x64")])
def test_too_large_a_fleet_is_refused_with_its_limits(text: str, nearest: str) -> None:
    with pytest.raises(CommandError) as refused:
        fake_fleet(text)
    assert f"--fake {text}: at most 10000 agents with 64 GPUs each can be simulated" in str(refused.value)
    assert refused.value.hint == f"use --fake {nearest}"


@pytest.mark.parametrize("text", ["64", "0x8", "ax8", "64x", "-1x8", "1" * 30 + "x8"])
def test_what_is_no_fleet_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not AGENTSxGPUS"):
        fake_fleet(text)
