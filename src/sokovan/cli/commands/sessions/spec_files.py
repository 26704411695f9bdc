"""`sokovan init`, `sokovan schema` and `sokovan session spec`: create spec files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.options import DEFAULT_ACTION, ActionOptions, Flag
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import as_json, print_data, print_status
from sokovan.cli.rendering import as_yaml
from sokovan.sdk.config import checked_context_name
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.spec.schema import FILE_NAME, deployment_schema, session_schema, starter


def init(name: str, /, *, force: Flag = False) -> int:
    """Create a session spec file.

    Writes NAME.sokovan.yaml and the JSON Schema with which an editor validates
    and completes it.

    For example:
      sokovan init train
      sokovan run -f train.sokovan.yaml

    Parameters
    ----------
    name
        Name of the session.
    force
        Overwrite an existing file.
    """
    _checked(name)
    _write(Path(f"{name}.sokovan.yaml"), starter(name), force=force)
    _write(Path(FILE_NAME), as_json(session_schema()) + "\n", force=True)
    print_status(f"next: sokovan plan -f {name}.sokovan.yaml")
    return OK


def schema(*, kind: Annotated[Literal["Session", "Deployment"], Parameter(name=["--kind", "-k"])] = "Session") -> int:
    """Print the JSON Schema of a spec.

    For example:
      sokovan schema -k Session > session.schema.json
      sokovan schema -k Deployment > deployment.schema.json

    Parameters
    ----------
    kind
        Kind of object.
    """
    print_data(as_json({"Session": session_schema, "Deployment": deployment_schema}[kind]()))
    return OK


def session_spec(name: str, /, *, server: ActionOptions = DEFAULT_ACTION) -> int:
    """Print the spec file that runs a session again.

    Prints YAML, with --json the same as JSON. The values of secret variables are
    never printed; their names are printed on standard error.

    For example:
      sokovan session spec ddp > ddp.sokovan.yaml
      sokovan session spec ddp | sokovan run -f -
      sokovan session spec ddp | sokovan run -n ddp-2 --gpus 4 -f -

    Parameters
    ----------
    name
        Session name or ID, or a unique prefix of one.
    """
    from sokovan.sdk.spec.session_document import session_document  # noqa: PLC0415  # YAML loads only here

    with server.client() as client:
        found = client.sessions.spec(name)
    document = session_document(found.body)
    print_data(as_json(document) if server.json else as_yaml(document))
    for note in found.notes:
        print_status(f"note: {note}")
    return OK


def _checked(name: str) -> None:
    try:
        checked_context_name(name)
    except InvalidSetting as problem:
        raise InvalidSetting(f"{name[:64]!r} is not a valid session name", hint=problem.hint) from problem


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidSetting(f"{path} already exists", hint="use another name, or --force") from None
    except OSError as error:
        raise InvalidSetting(
            f"cannot write {path}: {error.strerror or error}", hint="use a folder with write permission"
        ) from error
    print_status(f"wrote {path}")
