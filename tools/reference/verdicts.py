"""The codes of verdicts."""

from __future__ import annotations

from sokovan.scheduling.trace import MEANING, Advice
from sokovan.scheduling.validators.outcomes import OUTCOMES

INTRODUCTION = """\
# Verdict codes

Every cycle gives every pending session a verdict: a code, a sentence with current numbers, the checks, and how many
agents remain after each check. Programs should rely on the code; the sentence may change. `sokovan why` and
`sokovan simulate --explain` print verdicts.

| Code | Advice | Meaning |
|---|---|---|
"""

ADVICE_HEADING = """
The advice says what to do about it.

| Advice | Action |
|---|---|
"""

OUTCOMES_HEADING = """
## Validation failures

A session that a validator refuses stays PENDING if it may pass later, and is tried again in every cycle. One that can
never pass is CANCELLED with the cause `validation-failed` (`dependency-failed` for a dependency) and the reason. An
elastic session is cancelled only for its minimum.

| Refused because | Session |
|---|---|
"""

# The action that each advice recommends.
ADVICE: dict[Advice, str] = {
    Advice.NOTHING: "nothing: the session is starting",
    Advice.WAIT: "wait: the session is tried again in every cycle, and may fit when other work ends",
    Advice.CHANGE: "change the session: waiting alone will not help",
    Advice.ASK_ADMIN: "ask an administrator: the configuration of the cluster prevents it",
    Advice.BROKEN: "report it: something is broken, such as a plugin or the configuration of a queue",
}


def page() -> str:
    """The page of verdict codes and their advice."""
    codes = [f"| `{code}` | {advice} | {meaning} |\n" for code, (advice, meaning) in MEANING.items()]
    advice = [f"| {name} | {ADVICE[name]} |\n" for name in Advice]
    outcomes = [f"| {meaning} | {outcome.value.upper()} |\n" for outcome, meaning in OUTCOMES.values()]
    return "".join((INTRODUCTION, *codes, ADVICE_HEADING, *advice, OUTCOMES_HEADING, *outcomes))
