"""Options of a time to show: until now, or between two times in the past."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.formatting import utc_text
from sokovan.sdk.core.durations import seconds
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import InvalidSetting

EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """A time to show, in seconds since 1970; `is_past` if its end was given."""

    from_s: float
    to_s: float
    is_past: bool = False

    @property
    def since(self) -> str:
        """The beginning, as the API reads it."""
        return utc_text(EPOCH + timedelta(seconds=self.from_s), "milliseconds")

    @property
    def until(self) -> str | None:
        """The end, as the API reads it; None if it is now."""
        return utc_text(EPOCH + timedelta(seconds=self.to_s), "milliseconds") if self.is_past else None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """Options of a time to show."""

    last: Annotated[str | None, Parameter(help="Time to show, until now or --to: 15m, 24h, 7d; default: 1h.")] = None
    begins: Annotated[
        str | None, Parameter(name="--from", help="Beginning: 2030-01-31T18:00:00Z, or local time without Z.")
    ] = None
    to: Annotated[str | None, Parameter(help="End, instead of now: 2030-01-31T20:00:00Z.")] = None

    def window(self) -> Window:
        """The time that is meant. Raises InvalidSetting."""
        if self.begins is not None and self.last is not None:
            raise InvalidSetting("--from and --last both say when the time begins", hint="give one of them")
        now_s = SystemEnvironment().wall_s()
        to_s = now_s if self.to is None else _time(self.to, "--to")
        from_s = (
            to_s - seconds(self.last or "1h", what="--last") if self.begins is None else _time(self.begins, "--from")
        )
        if from_s >= to_s:
            end = f"--to {self.to}" if self.to is not None else "now"
            raise InvalidSetting(f"the time begins at its end, {end}, or after it", hint="give --from an earlier time")
        if from_s < 0:
            raise InvalidSetting("the time begins before 1970", hint="give a shorter --last, or a later --from")
        return Window(from_s, to_s, is_past=self.to is not None)


LAST_HOUR = WindowOptions()


def _time(text: str, option: str) -> float:
    """A time, or the beginning of a day; without an offset in the time zone of this machine."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        problem = f"{option} {text[:60]!r} is not a time"
        raise InvalidSetting(problem, hint="use 2030-01-31T18:00:00Z or 2030-01-31") from None
