"""`sokovan db`: check and upgrade the database schema, rotate the key for secrets."""

from __future__ import annotations

import os
from pathlib import Path

from sokovan.cli.exit_codes import FAILED, NOT_FOUND, OK, REFUSED, UNREACHABLE, USAGE
from sokovan.cli.output import as_json, print_data, print_error, print_status
from sokovan.domain.errors import InvalidInput, SokovanError
from sokovan.entrypoints.database import SchemaState, checked, store_address, upgraded
from sokovan.entrypoints.embedded.data_folder import data_home
from sokovan.entrypoints.settings.secret_keys import rotate_secret_key

# Exit codes by error code of the store; `sokovan audit --help` documents them.
_STATUSES = {"store-missing": NOT_FOUND, "schema-mismatch": REFUSED, "store-unavailable": UNREACHABLE}


def upgrade(store: str | None, *, json: bool) -> int:
    """Upgrade the schema and return the exit code."""
    try:
        state = upgraded(store_address(store, os.environ), report=print_status)
    except SokovanError as error:
        print_error(error, as_object=json)
        return status_of(error)
    _show(state, json=json)
    return OK


def check(store: str | None, *, json: bool) -> int:
    """Check the schema and return the exit code."""
    try:
        state = checked(store_address(store, os.environ))
    except SokovanError as error:
        print_error(error, as_object=json)
        return status_of(error)
    _show(state, json=json)
    if not state.current:
        print_status(f"the newest revision is {state.newest}; run sokovan db upgrade")
    return OK if state.current else FAILED


def rotate_key(data: Path | None) -> int:
    """Add a key for secret variables and return the exit code."""
    try:
        path, name = rotate_secret_key(data_home(os.environ) if data is None else data)
    except SokovanError as error:
        print_error(error, as_object=False)
        return FAILED
    print_status(f"{path}: secrets of new sessions are encrypted with key {name}")
    return OK


def status_of(error: SokovanError) -> int:
    """The exit code for an error of the store."""
    return USAGE if isinstance(error, InvalidInput) else _STATUSES.get(error.code, FAILED)


def _show(state: SchemaState, *, json: bool) -> None:
    if json:
        print_data(
            as_json(
                {
                    "store": state.store,
                    "before": state.before,
                    "revision": state.after,
                    "newest": state.newest,
                    "current": state.current,
                }
            )
        )
    else:
        print_data(f"{state.store}  revision {state.after or 'none'}  {'current' if state.current else 'old'}")
