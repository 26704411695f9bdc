"""Options that give settings of the server and of agents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOptions:
    """The configuration file, and settings that take precedence over it."""

    config: Annotated[
        Path | None,
        Parameter(help="Configuration file. [env: SOKOVAN_CONFIG]"),
    ] = None
    set: Annotated[tuple[str, ...], Parameter(negative=(), help="Setting, such as log.files_kept=5. Repeatable.")] = ()


NO_SETTINGS = SettingOptions()
