"""`sokovan ps`: list and watch sessions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import TABLE_OUTPUT, OutputOptions
from sokovan.cli.commands.sessions.session_tables import Listed, listed_columns
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import flush_output, print_status
from sokovan.cli.rendering import Column, OutputFormat, show_all, show_next, widths_of
from sokovan.sdk.core.array_calls import ArrayListOptions
from sokovan.sdk.core.session_calls import SessionListOptions, SessionOrderOptions
from sokovan.sdk.core.states import ENDED, FINAL, STATES, checked_state, reached
from sokovan.sdk.core.streams.followers import MISSED
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.api.sessions import SessionCountView, SessionView

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client

LIMIT_DEFAULT = 100
Sorting: TypeAlias = Literal[
    "newest", "oldest", "name", "-name", "user", "-user", "queue", "-queue", "status", "-status",
    "kernels", "-kernels", "gpus", "-gpus", "reason", "-reason",
]  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSelection:
    """Options that select sessions."""

    all: Annotated[bool, Parameter(name=["--all", "-a"], negative=(), help="Include sessions that have ended.")] = False
    id: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Only the session with this id, ended or not. Repeatable.")
    ] = ()
    status: Annotated[str | None, Parameter(help="Only these states (comma-separated); ENDED is any final state.")] = (
        None
    )
    name: Annotated[str | None, Parameter(help="Only sessions with exactly this name.")] = None
    search: Annotated[str | None, Parameter(help="Only those with these words in name, id, user or queue.")] = None
    reason: Annotated[str | None, Parameter(help="Only those PENDING for this reason, as in sokovan why.")] = None
    queue: Annotated[str | None, Parameter(help="Only sessions of this queue.")] = None
    scaling_group: Annotated[str | None, Parameter(help="Only sessions of this scaling group.")] = None
    user: Annotated[str | None, Parameter(help="Only sessions of this user.")] = None
    group: Annotated[str | None, Parameter(help="Only sessions of this group.")] = None
    label: Annotated[
        tuple[str, ...],
        Parameter(name=["--label", "-l"], negative=(), help="Only sessions with this label: NAME[=VALUE]. Repeatable."),
    ] = ()
    mine: Annotated[bool, Parameter(negative=(), help="Only your own sessions.")] = False
    array: Annotated[str | None, Parameter(help="List the sessions of this array, each on its own line.")] = None
    sort: Annotated[
        Sorting | None,
        Parameter(
            show_choices=False,
            allow_leading_hyphen=True,
            help="The order: newest, oldest or a property as above.",
        ),
    ] = None
    limit: Annotated[int, Parameter(help="Maximum number of sessions; default: 100.")] = LIMIT_DEFAULT
    no_limit: Annotated[bool, Parameter(negative=(), help="List all of them, however many.")] = False

    def query(self) -> SessionListOptions:
        """The query to the server. Raises InvalidSetting."""
        if self.limit < 1:
            raise InvalidSetting(f"--limit {self.limit} is less than 1", hint="use 1 or more")
        if not all(self.label):
            raise InvalidSetting("--label is empty", hint="write --label NAME or --label NAME=VALUE")
        states = (
            [state for each in self.status.split(",") for state in _states(each)] if self.status is not None else []
        )
        if not states and not self.all and self.array is None and not self.id:
            states = [state for state in STATES if state not in FINAL]
        return SessionListOptions(
            id=",".join(self.id) or None,
            status=",".join(state.lower() for state in states) or None,
            name=self.name,
            q=self.search,
            reason=self.reason,
            queue=self.queue,
            scaling_group=self.scaling_group,
            user=self.user,
            group=self.group,
            label=",".join(self.label) or None,
            mine=self.mine,
            array=self.array,
        )

    @property
    def folds_arrays(self) -> bool:
        """Whether an array is one line, instead of its sessions."""
        return (
            self.array is None and not self.id and not self.name and not self.reason and self.sort in {None, "newest"}
        )

    def listed(self, client: Client, query: SessionListOptions, *, folded: bool) -> tuple[list[Listed], bool]:
        """The sessions, and whether the limit left some out.

        `folded`: arrays instead of their sessions.
        """
        # One more than the limit, to know whether there are more.
        limit = None if self.no_limit else self.limit + 1
        if folded:
            query["outside_arrays"] = True
        ordered = SessionOrderOptions(**query, sort=self.sort)
        views: list[Listed] = [*client.sessions.list(**ordered, limit=limit)]
        if folded:
            wanted = {name: value for name, value in query.items() if name in ArrayListOptions.__annotations__}
            views += client.arrays.list(**cast("ArrayListOptions", wanted), limit=limit)
            views.sort(key=lambda view: view.submitted_at, reverse=True)
        is_cut = not self.no_limit and len(views) > self.limit
        return views[: self.limit] if is_cut else views, is_cut


def _states(text: str) -> list[str]:
    state = checked_state(text.strip())
    return sorted(FINAL) if state == ENDED else [state]


ALIVE = SessionSelection()


def ps(
    *,
    selection: SessionSelection = ALIVE,
    watch: Annotated[bool, Parameter(name=["--watch", "-w"], negative=())] = False,
    until: str | None = None,
    count_by: Annotated[
        Literal["status", "queue", "user", "group", "scaling_group"] | None, Parameter(show_choices=False)
    ] = None,
    output: OutputOptions = TABLE_OUTPUT,
) -> int:
    """List sessions.

    By default, lists sessions that have not ended, at most 100 of them, newest
    first. An array is one line, with the number of its running sessions; --array
    lists its sessions by index, --watch and --until those of all arrays.

    Sessions are sorted by newest, oldest, name, user, queue, status, kernels, gpus
    or reason, falling with a minus sign in front; only newest folds arrays.

    For example:
      sokovan ps
      sokovan ps --all --mine -o wide
      sokovan ps --all --no-limit -o csv
      sokovan ps --status PENDING --json
      sokovan ps -l team=vision -l nightly
      sokovan ps --until RUNNING
      sokovan ps --array sweep --status PENDING
      sokovan ps --search 'ada bert' --sort oldest
      sokovan ps --sort -gpus --limit 10
      sokovan ps --reason QUOTA_USER --count-by user
      sokovan ps --all --count-by queue

    Parameters
    ----------
    watch
        Print a line for every change, until Ctrl-C.
    until
        Watch until every listed session has reached this state.
    count_by
        Count by status, queue, user, group or scaling_group.
    """
    fmt, query = output.format(), selection.query()
    target = checked_state(until) if until is not None else None
    watched = watch or target is not None
    if count_by is not None:
        return _counted(count_by, query, output, watched=watched)
    if watched and fmt.name == "json":  # a single JSON document cannot grow
        fmt = OutputFormat("jsonl")
    columns = listed_columns(utc=output.utc)
    with output.client() as client:
        folded = not watched and selection.folds_arrays
        views, is_cut = selection.listed(client, query, folded=folded)
        show_all(views, columns, fmt, name=_name)
        if is_cut:
            sort = selection.sort or ("newest" if selection.array is None else None)
            which = sort if sort in {"newest", "oldest"} else "first"
            print_status(f"the {which} {len(views)} sessions are listed, and there are more; --no-limit lists all")
        flush_output()
        widths = widths_of(views, columns)
        for view in _changes(client, [one for one in views if isinstance(one, SessionView)], target) if watched else ():
            show_next(view, listed_columns(utc=output.utc), fmt, name=_name, widths=widths)
            flush_output()
    return OK


def _counted(by: str, query: SessionListOptions, output: OutputOptions, *, watched: bool) -> int:
    if watched:
        raise InvalidSetting("--count-by counts once", hint="leave out --watch and --until")
    columns: list[Column[SessionCountView]] = [
        Column(by, lambda one: one.value),
        Column("sessions", lambda one: str(one.count)),
    ]
    with output.client() as client:
        show_all(client.sessions.counts(by, **query).items, columns, output.format(), name=lambda one: one.value)
    return OK


def _name(view: Listed) -> str:
    return view.name


def _changes(client: Client, views: list[SessionView], target: str | None) -> Iterator[SessionView]:
    """Every change of a session; with a target, changes of these sessions until all reached it."""
    shown = {view.id: view for view in views}
    open_ones = {view.id for view in views if target is None or not reached(view, target)}
    if target is not None and not open_ones:
        return
    for event in client.events():
        for changed in [event.id] if event.object == "session" else sorted(open_ones) if event == MISSED else []:
            if target is not None and changed not in open_ones:
                continue
            view = client.sessions.get(changed)
            if view != shown.get(changed):
                shown[changed] = view
                yield view
            if target is not None and reached(view, target):
                open_ones.discard(changed)
        if target is not None and not open_ones:
            return
