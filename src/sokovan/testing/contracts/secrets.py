"""Contract of `ports.secrets.SecretBox`."""

from __future__ import annotations

from typing import TypeAlias

from sokovan.ports.secrets import SecretBox, SecretsUnreadable
from sokovan.testing.contracts import Subject, expect

SecretBoxSubject: TypeAlias = Subject[SecretBox]
GIVEN = {"TOKEN": "known-to-one-user-alone", "EMPTY": "", "ODD": "ä\n'\" =$"}


async def what_was_sealed_is_opened(subject: SecretBoxSubject) -> None:
    """A box gives back exactly what was sealed, also one made later."""
    sealed = (await subject.make()).seal(GIVEN, owner="alice")
    expect((await subject.make()).open(sealed, owner="alice") == GIVEN, "other secrets than those sealed")


async def a_sealed_text_tells_nothing(subject: SecretBoxSubject) -> None:
    """It has neither names nor values in it, and equal secrets give different texts."""
    box = await subject.make()
    first, second = box.seal(GIVEN, owner="alice"), box.seal(GIVEN, owner="alice")
    expect(first != second, "equal secrets can be recognized")
    expect("TOKEN" not in first and GIVEN["TOKEN"] not in first, "a sealed text is readable")


async def only_its_owner_opens_a_sealed_text(subject: SecretBoxSubject) -> None:
    """Moved to a session of another user, or changed, it does not open."""
    box = await subject.make()
    sealed = box.seal(GIVEN, owner="alice")
    middle = len(sealed) // 2
    changed = sealed[:middle] + ("A" if sealed[middle] != "A" else "B") + sealed[middle + 1 :]
    for text, owner in ((sealed, "mallory"), (changed, "alice"), ("", "alice"), (sealed[:20], "alice")):
        try:
            box.open(text, owner=owner)
        except SecretsUnreadable:
            continue
        raise AssertionError(f"{text[:20]} was opened for {owner}")


async def equal_texts_have_equal_digests(subject: SecretBoxSubject) -> None:
    """A repeated request is recognized by its digest."""
    one, other = await subject.make(), await subject.make()
    expect(one.digest("a") == other.digest("a"), "equal texts have different digests")
    expect(one.digest("a") != one.digest("b"), "different texts have equal digests")


CHECKS = (
    what_was_sealed_is_opened,
    a_sealed_text_tells_nothing,
    only_its_owner_opens_a_sealed_text,
    equal_texts_have_equal_digests,
)
