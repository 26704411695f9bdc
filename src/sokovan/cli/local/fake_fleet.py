"""Reads the size of a fleet of fake agents: 64x8 is 64 agents with 8 GPUs each."""

from __future__ import annotations

import re

from sokovan.cli.errors import usage_error

_FLEET = re.compile(r"([0-9]{1,20})x([0-9]{1,20})", re.ASCII)


def fake_fleet(text: str | None) -> tuple[int, int] | None:
    """The number of agents, and of GPUs of each. Raises CommandError."""
    if text is None:
        return None
    found = _FLEET.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise usage_error(f"--fake {text[:60]!r} is not AGENTSxGPUS", hint="use --fake 64x8")
    from sokovan.agent.fake.shape import AGENTS_MAX, GPUS_MAX  # noqa: PLC0415  # loads much of the domain

    agents, gpus = int(found[1]), int(found[2])
    if agents > AGENTS_MAX or gpus > GPUS_MAX:
        limits = f"at most {AGENTS_MAX} agents with {GPUS_MAX} GPUs each can be simulated"
        raise usage_error(
            f"--fake {text}: {limits}", hint=f"use --fake {min(agents, AGENTS_MAX)}x{min(gpus, GPUS_MAX)}"
        )
    return agents, gpus
