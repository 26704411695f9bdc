"""Objects in the form asked for: a table for people, the rest for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sokovan.cli.output import as_json, plain_cell, print_data, table
from sokovan.sdk.errors import InvalidSetting

T = TypeVar("T")

# The widths of a table that has widths, by column.
ColumnWidths = Mapping[str, int]

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")
COLUMN_FORMATS = frozenset({"table", "wide", "csv"})


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table: its name, and what stands in it."""

    name: str
    cell: Callable[[T], str]
    wide: bool = False

    @property
    def heading(self) -> str:
        """The name as it stands above the column."""
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How to print: one of the formats, and maybe only some columns of it."""

    format: str = "table"
    columns: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.format in {"table", "wide"}


def output_format(format_name: str, columns: str | None) -> OutputFormat:
    """The form that these options mean. Raises InvalidSetting."""
    if format_name not in FORMATS:
        raise InvalidSetting(f"{format_name[:60]!r} is not a format of output", hint=f"use one of {', '.join(FORMATS)}")
    if columns is not None and format_name not in COLUMN_FORMATS:
        raise InvalidSetting(
            f"--columns is for tables and csv, and the format is {format_name}",
            hint="leave it out, or say -o table; jq picks fields of JSON: sokovan ps --json | jq '.[].name'",
        )
    names = tuple(name.strip().lower() for name in columns.split(",") if name.strip()) if columns is not None else ()
    if columns is not None and not names:
        raise InvalidSetting("--columns names no column", hint="write --columns NAME,STATE")
    return OutputFormat(format_name, names)


def show_all(items: Iterable[T], columns: Sequence[Column[T]], form: OutputFormat, *, name: Callable[[T], str]) -> None:
    """Print a list; an empty one is an empty list, never prose."""
    chosen = chosen_columns(columns, form)
    if form.format == "jsonl":
        for item in items:
            print_data(plain_line(item))
        return
    found = list(items)
    match form.format:
        case "json":
            print_data(as_json([plain(item) for item in found]))
        case "yaml":
            print_data(_yaml([plain(item) for item in found]))
        case "name":
            for item in found:
                print_data(name(item))
        case "csv":
            print_data(_csv(chosen, found))
        case _:
            rows = [[column.cell(item) for column in chosen] for item in found]
            print_data(table([column.heading for column in chosen], rows))


def show_one(item: T, facts: Sequence[tuple[str, str]], form: OutputFormat, *, name: str) -> None:
    """Print one object, or its facts line by line. Raises InvalidSetting."""
    facts = _chosen_facts(facts, form, name)
    match form.format:
        case "json":
            print_data(as_json(plain(item)))
        case "jsonl":
            print_data(plain_line(item))
        case "yaml":
            print_data(_yaml(plain(item)))
        case "name":
            print_data(name)
        case "csv":
            print_data(_csv_rows([[fact for fact, _ in facts], [value for _, value in facts]]))
        case _:
            width = max(len(fact) for fact, _ in facts) + 2
            for fact, value in facts:
                print_data(f"{fact.ljust(width)}{plain_cell(value)}")


def show_next(
    item: T, columns: Sequence[Column[T]], form: OutputFormat, *, name: Callable[[T], str], widths: ColumnWidths
) -> None:
    """Print one more object of a list that grows."""
    chosen = chosen_columns(columns, form)
    if form.format == "csv":
        print_data(_csv_rows([[column.cell(item) for column in chosen]]))
    elif form.is_table:
        cells = [plain_cell(column.cell(item)) for column in chosen]
        padded = [cell.ljust(widths[column.name]) for cell, column in zip(cells, chosen, strict=True)]
        print_data("  ".join(padded).rstrip())
    else:
        show_all([item], columns, form, name=name)


def widths_of(items: Iterable[T], columns: Sequence[Column[T]]) -> ColumnWidths:
    """How wide each column of a list is at its beginning."""
    found = list(items)
    return {each.name: max([len(each.heading), *(len(each.cell(item)) for item in found)]) for each in columns}


def plain(item: object) -> Any:
    """An object of the wire as dictionaries and lists, under the names of the API."""
    import msgspec  # noqa: PLC0415  # a table has no need of it

    return msgspec.to_builtins(item)


def plain_line(item: object) -> str:
    """An object of the wire as one line of JSON."""
    return json.dumps(plain(item), ensure_ascii=False)


def chosen_columns(columns: Sequence[Column[T]], form: OutputFormat) -> list[Column[T]]:
    """The columns to print. Raises InvalidSetting for one that is not there."""
    by_name = {column.name: column for column in columns}
    unknown = [name for name in form.columns if name not in by_name]
    if unknown:
        raise InvalidSetting(f"there is no column {unknown[0][:60]!r}", hint=f"the columns are {', '.join(by_name)}")
    if form.columns:
        return [by_name[name] for name in form.columns]
    return [column for column in columns if form.format in {"wide", "csv"} or not column.wide]


def _chosen_facts(facts: Sequence[tuple[str, str]], form: OutputFormat, name: str) -> Sequence[tuple[str, str]]:
    by_name = dict(facts)
    unknown = [fact for fact in form.columns if fact not in by_name]
    if unknown:
        raise InvalidSetting(f"{name} has no {unknown[0][:60]!r}", hint=f"it has {', '.join(by_name)}")
    return [(fact, by_name[fact]) for fact in form.columns] or facts


def _csv(columns: Sequence[Column[T]], items: Sequence[T]) -> str:
    return _csv_rows(
        [[column.name for column in columns], *([column.cell(item) for column in columns] for item in items)]
    )


def _csv_rows(rows: Sequence[Sequence[str]]) -> str:
    import csv  # noqa: PLC0415  # few ask for it
    import io  # noqa: PLC0415  # few ask for it

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


def _yaml(value: Any) -> str:
    import yaml  # noqa: PLC0415  # few ask for it

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).removesuffix("\n")
