"""Validator of dependencies between sessions."""

from __future__ import annotations

from sokovan.scheduling.snapshot import SessionWorkload
from sokovan.scheduling.validators.base import DependencyUnmet, ValidationContext, ValidatorRule


class DependenciesValidator(ValidatorRule):
    """Refuses a session until all its dependencies have succeeded."""

    name = "dependencies"
    looks_at = "dependencies"

    def validate(self, session: SessionWorkload, context: ValidationContext) -> None:
        """Object if a dependency has failed or has not ended yet."""
        outcomes = context.snapshot.outcomes
        failed = [name for name in session.dependencies if outcomes.get(name) is False]
        if failed:
            raise DependencyUnmet(
                f"{', '.join(failed)} failed, so this session will not start",
                session_id=session.session_id,
                hint="rerun the failed session and submit again, or remove the dependency",
                final=True,
            )
        waiting = [name for name in session.dependencies if name not in outcomes]
        if waiting:
            raise DependencyUnmet(
                f"{', '.join(waiting)} must end first ({len(waiting)} of {len(session.dependencies)} dependencies)",
                session_id=session.session_id,
            )
