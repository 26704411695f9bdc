"""Secret variables of revisions: sealed on input, opened for each replica."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from sokovan.domain.errors import InvalidSpec
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.ports.secrets import SecretBox

# Values by name; None is that of the current revision.
GivenSecrets: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class RevisionSecrets:
    """Seals the values of a revision for the owner of its deployment."""

    box: SecretBox

    def values(self, given: GivenSecrets, owner: Owner, before: RevisionSpec | None = None) -> dict[str, str]:
        """The given and the kept values. Raises InvalidSpec, SecretsUnreadable."""
        keeps = before is not None and None in given.values()
        kept = self.opened(before, owner) if before is not None and keeps else {}
        values: dict[str, str] = {}
        for name, value in given.items():
            found = kept.get(name) if value is None else value
            if found is None:
                problem = "has no value, neither here nor in the current revision"
                raise InvalidSpec(what="revision", field="secrets", value=name, problem=problem)
            values[name] = found
        return values

    def digest(self, text: str) -> str:
        """A digest by which a guess of the secrets cannot be tested."""
        return self.box.digest(text)

    def sealed(self, revision: RevisionSpec, values: Mapping[str, str], owner: Owner) -> RevisionSpec:
        """The revision as it is stored."""
        return replace(revision, sealed=self.box.seal(values, owner=owner.user)) if values else revision

    def opened(self, revision: RevisionSpec, owner: Owner) -> Mapping[str, str]:
        """The values of a stored revision. Raises SecretsUnreadable."""
        return self.box.open(revision.sealed, owner=owner.user) if revision.sealed else {}
