"""The codes that explanations use, and what they mean."""

from __future__ import annotations

import pytest

from sokovan.orchestrator.sessions.explain.explanations import STAGES, Stage, meaning_of
from sokovan.scheduling.trace import Advice, Code


def test_every_standing_says_what_to_do_and_what_it_means() -> None:
    assert set(STAGES) == set(Stage)
    assert all(meaning for _, meaning in STAGES.values())


def test_no_standing_has_the_name_of_a_verdict() -> None:
    assert not {stage.value for stage in Stage} & {code.value for code in Code}


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("NEVER_FITS", Advice.CHANGE),
        ("IMAGE_PULLING", Advice.WAIT),
        ("IMAGE_NOT_FOUND", Advice.CHANGE),
        ("AGENT_UNREACHABLE", Advice.WAIT),
        ("RETRY_BACKOFF", Advice.WAIT),
        ("FAILED", Advice.BROKEN),
        ("COMMAND_FAILED", Advice.CHANGE),
        ("TIME_LIMIT_REACHED", Advice.CHANGE),
        ("SUCCEEDED", Advice.NOTHING),
    ],
)
def test_a_code_asks_something_of_the_reader(code: str, advice: Advice) -> None:
    assert meaning_of(code)[0] is advice
    assert meaning_of(code)[1]


def test_a_code_of_another_version_is_no_error() -> None:
    assert meaning_of("SOMETHING_NEW") == (Advice.WAIT, "unknown to this version")
