"""PluginRegistry: all plugins by kind and name.

The registry holds names and factories only. Installed plugins are discovered by entry
point in `sokovan.entrypoints.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from sokovan.domain.errors import InvalidInput, SokovanError, listed, quoted
from sokovan.scheduling.extensions import SchedulingPlugin
from sokovan.scheduling.selectors.base import AgentSelector
from sokovan.scheduling.selectors.concentrated import ConcentratedSelector
from sokovan.scheduling.selectors.dispersed import DispersedSelector
from sokovan.scheduling.selectors.legacy import LegacySelector
from sokovan.scheduling.selectors.roundrobin import RoundRobinSelector
from sokovan.scheduling.sequencers.base import WorkloadSequencer
from sokovan.scheduling.sequencers.deadline import DeadlineSequencer
from sokovan.scheduling.sequencers.drf import DRFSequencer
from sokovan.scheduling.sequencers.fair_share import FairShareSequencer
from sokovan.scheduling.sequencers.fifo import FIFOSequencer
from sokovan.scheduling.sequencers.lifo import LIFOSequencer
from sokovan.scheduling.sequencers.multifactor import MultifactorSequencer
from sokovan.scheduling.validators import BUILT_IN_VALIDATORS
from sokovan.scheduling.validators.base import ValidatorRule

P = TypeVar("P")


class UnknownPlugin(InvalidInput):
    """No plugin of this kind has this name."""

    code = "unknown-plugin"
    hint = "use one of the names listed above, or install the package that provides the plugin"

    def __init__(self, *, kind: str, name: object, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"there is no {kind} {quoted(name)}; known are {listed(self.known)}")


class DuplicatePlugin(InvalidInput):
    """Two plugins of one kind have the same name."""

    code = "duplicate-plugin"
    hint = "rename one of them; a plugin cannot replace a built-in one"

    def __init__(self, *, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"two {kind}s are named {quoted(name)}")


class UnusablePlugin(InvalidInput):
    """A plugin named in a profile raises when it is created."""

    code = "unusable-plugin"
    hint = "fix the plugin, or remove its name from the profile"

    def __init__(self, *, kind: str, name: str, error: Exception) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"the {kind} {quoted(name)} cannot be created: {type(error).__name__}: {error}")


@dataclass(frozen=True)
class PluginRegistry:
    """All plugins that a profile may name."""

    validators: dict[str, Callable[[], ValidatorRule]] = field(default_factory=dict)
    sequencers: dict[str, Callable[[], WorkloadSequencer]] = field(default_factory=dict)
    selectors: dict[str, Callable[[], AgentSelector]] = field(default_factory=dict)
    plugins: dict[str, Callable[[], SchedulingPlugin]] = field(default_factory=dict)

    def validator(self, name: str) -> ValidatorRule:
        """The validator of this name. Raises UnknownPlugin."""
        return _create("validator", name, self.validators)

    def sequencer(self, name: str) -> WorkloadSequencer:
        """The sequencer of this name. Raises UnknownPlugin."""
        return _create("sequencer", name, self.sequencers)

    def selector(self, name: str) -> AgentSelector:
        """The selector of this name. Raises UnknownPlugin."""
        return _create("selector", name, self.selectors)

    def plugin(self, name: str) -> SchedulingPlugin:
        """The engine plugin of this name. Raises UnknownPlugin."""
        return _create("plugin", name, self.plugins)


def _create(kind: str, name: str, known: dict[str, Callable[[], P]]) -> P:
    if name not in known:
        raise UnknownPlugin(kind=kind, name=name, known=known)
    try:
        return known[name]()
    except SokovanError:
        raise
    except Exception as error:
        raise UnusablePlugin(kind=kind, name=name, error=error) from error


def _by_name(*plugins: type[P]) -> dict[str, Callable[[], P]]:
    return {plugin.name: plugin for plugin in plugins}  # type: ignore[attr-defined]  # every plugin class has a name


BUILT_IN = PluginRegistry(
    validators=_by_name(*BUILT_IN_VALIDATORS),
    sequencers=_by_name(
        FIFOSequencer, LIFOSequencer, DRFSequencer, FairShareSequencer, DeadlineSequencer, MultifactorSequencer
    ),
    selectors=_by_name(ConcentratedSelector, DispersedSelector, RoundRobinSelector, LegacySelector),
)
