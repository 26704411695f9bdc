"""The codes that verdicts carry."""

from __future__ import annotations

from sokovan.scheduling.trace import MEANING, Advice

INTRODUCTION = """\
# Verdict codes

Every cycle gives every session that waits a verdict: a code, a sentence with the numbers of the moment, the checks that
were made, and how many agents were left after each question. Programs key on the code; the sentence may be improved.
`sokovan simulate --explain` prints verdicts.

| Code | Advice | Meaning |
|---|---|---|
"""

ADVICE_HEADING = """
The advice says what the reader can do about it.

| Advice | What to do |
|---|---|
"""

# What each advice asks of the reader, in words.
ADVICE: dict[Advice, str] = {
    Advice.NOTHING: "nothing: it is on its way",
    Advice.WAIT: "wait: it is tried again in every cycle, and may fit when other work ends",
    Advice.CHANGE: "change the session: as it stands, waiting alone will not help",
    Advice.ASK_ADMIN: "ask an administrator: the cluster is set up so that it cannot run",
    Advice.BROKEN: "report it: something is broken, such as a plugin or the configuration of a queue",
}


def page() -> str:
    """The page of verdict codes and what they ask of the reader."""
    codes = [f"| `{code}` | {advice} | {meaning} |\n" for code, (advice, meaning) in MEANING.items()]
    advice = [f"| {name} | {ADVICE[name]} |\n" for name in Advice]
    return "".join((INTRODUCTION, *codes, ADVICE_HEADING, *advice))
