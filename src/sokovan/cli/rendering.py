"""Prints objects in an output format: table, wide, json, jsonl, yaml, csv or name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sokovan.cli.output import as_json, plain_cell, print_data, table
from sokovan.sdk.errors import InvalidSetting
from sokovan.wire.plain_codec import plain

T = TypeVar("T")

# Column widths of a table whose first rows are printed, by column.
ColumnWidths = Mapping[str, int]

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")
COLUMN_FORMATS = frozenset({"table", "wide", "csv"})


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table; a `wide` one is left out of the plain table."""

    name: str
    cell: Callable[[T], str]
    wide: bool = False

    @property
    def heading(self) -> str:
        """The text above the column."""
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """An output format, and the columns selected for it, if any."""

    name: str = "table"
    columns: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether the format is a table for people."""
        return self.name in {"table", "wide"}


def parse_output_format(name: str, columns: str | None) -> OutputFormat:
    """Check the values of --output and --columns. Raises InvalidSetting."""
    if name not in FORMATS:
        raise InvalidSetting(f"{name[:60]!r} is not an output format", hint=f"use one of {', '.join(FORMATS)}")
    if columns is not None and name not in COLUMN_FORMATS:
        raise InvalidSetting(
            f"--columns applies to table, wide and csv, not to {name}",
            hint="leave it out, or use -o table; select JSON fields with jq: sokovan ps --json | jq '.[].name'",
        )
    names = tuple(each.strip().lower() for each in columns.split(",") if each.strip()) if columns is not None else ()
    if columns is not None and not names:
        raise InvalidSetting("--columns is empty", hint="use --columns NAME,STATE")
    return OutputFormat(name, names)


def show_all(items: Iterable[T], columns: Sequence[Column[T]], fmt: OutputFormat, *, name: Callable[[T], str]) -> None:
    """Print a list; an empty list stays an empty list in every format."""
    selected = selected_columns(columns, fmt)
    if fmt.name == "jsonl":
        for item in items:
            print_data(plain_line(item))
        return
    found = list(items)
    match fmt.name:
        case "json":
            print_data(as_json([plain(item) for item in found]))
        case "yaml":
            print_data(as_yaml([plain(item) for item in found]))
        case "name":
            for item in found:
                print_data(name(item))
        case "csv":
            print_data(_csv(selected, found))
        case _:
            rows = [[column.cell(item) for column in selected] for item in found]
            print_data(table([column.heading for column in selected], rows))


def show_one(item: T, facts: Sequence[tuple[str, str]], fmt: OutputFormat, *, name: str) -> None:
    """Print one object; as a table, one line per fact. Raises InvalidSetting."""
    facts = _selected_facts(facts, fmt, name)
    match fmt.name:
        case "json":
            print_data(as_json(plain(item)))
        case "jsonl":
            print_data(plain_line(item))
        case "yaml":
            print_data(as_yaml(plain(item)))
        case "name":
            print_data(name)
        case "csv":
            print_data(_csv_rows([[fact for fact, _ in facts], [value for _, value in facts]]))
        case _:
            width = max(len(fact) for fact, _ in facts) + 2
            for fact, value in facts:
                print_data(f"{fact.ljust(width)}{plain_cell(value)}")


def show_next(
    item: T, columns: Sequence[Column[T]], fmt: OutputFormat, *, name: Callable[[T], str], widths: ColumnWidths
) -> None:
    """Print one more object of a list that is watched."""
    selected = selected_columns(columns, fmt)
    if fmt.name == "csv":
        print_data(_csv_rows([[column.cell(item) for column in selected]]))
    elif fmt.is_table:
        cells = [plain_cell(column.cell(item)) for column in selected]
        padded = [cell.ljust(widths[column.name]) for cell, column in zip(cells, selected, strict=True)]
        print_data("  ".join(padded).rstrip())
    else:
        show_all([item], columns, fmt, name=name)


def widths_of(items: Iterable[T], columns: Sequence[Column[T]]) -> ColumnWidths:
    """The width of each column for these items."""
    found = list(items)
    return {each.name: max([len(each.heading), *(len(each.cell(item)) for item in found)]) for each in columns}


def plain_line(item: object) -> str:
    """A wire object as one line of JSON."""
    return json.dumps(plain(item), ensure_ascii=False)


def selected_columns(columns: Sequence[Column[T]], fmt: OutputFormat) -> list[Column[T]]:
    """The columns to print. Raises InvalidSetting for an unknown one."""
    by_name = {column.name: column for column in columns}
    unknown = [name for name in fmt.columns if name not in by_name]
    if unknown:
        raise InvalidSetting(f"unknown column {unknown[0][:60]!r}", hint=f"the columns are {', '.join(by_name)}")
    if fmt.columns:
        return [by_name[name] for name in fmt.columns]
    return [column for column in columns if fmt.name in {"wide", "csv"} or not column.wide]


def _selected_facts(facts: Sequence[tuple[str, str]], fmt: OutputFormat, name: str) -> Sequence[tuple[str, str]]:
    by_name = dict(facts)
    unknown = [fact for fact in fmt.columns if fact not in by_name]
    if unknown:
        raise InvalidSetting(f"{name} has no field {unknown[0][:60]!r}", hint=f"the fields are {', '.join(by_name)}")
    return [(fact, by_name[fact]) for fact in fmt.columns] or facts


def _csv(columns: Sequence[Column[T]], items: Sequence[T]) -> str:
    return _csv_rows(
        [[column.name for column in columns], *([column.cell(item) for column in columns] for item in items)]
    )


def _csv_rows(rows: Sequence[Sequence[str]]) -> str:
    import csv  # noqa: PLC0415  # rarely used
    import io  # noqa: PLC0415  # rarely used

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


def as_yaml(value: Any) -> str:
    """Format a value as YAML; keys keep their order, and lines are not folded."""
    import yaml  # noqa: PLC0415  # rarely used

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=math.inf)).removesuffix("\n")
