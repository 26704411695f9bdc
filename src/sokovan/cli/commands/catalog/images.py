"""`sokovan image`: what kernels start from."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from sokovan.cli.commands.catalog.catalog import (
    amounts_text,
    changed,
    list_all,
    read_amounts,
    remove_named,
    show_named,
    tell_changed,
)
from sokovan.cli.commands.options import (
    DEFAULT_ACTION,
    DEFAULT_SERVER,
    TABLE_OUTPUT,
    ActionOptions,
    OutputOptions,
    ServerOptions,
    Yes,
)
from sokovan.cli.formatting import or_none
from sokovan.cli.rendering import Column
from sokovan.wire.api.fleet import ImageBody

ARCHITECTURE = "x86_64"

COLUMNS: list[Column[ImageBody]] = [
    Column("name", lambda image: image.name),
    Column("arch", lambda image: image.architecture),
    Column("least", lambda image: amounts_text(image.slots_min)),
    Column("digest", lambda image: or_none(image.digest)),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List images.

    host and venv:NAME are known without being listed.

    For example:
      sokovan image ls
    """
    return list_all(shown, COLUMNS, lambda client: client.images.list())


def show(name: str, /, *, architecture: str = ARCHITECTURE, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """Show one image.

    For example:
      sokovan image show pytorch/pytorch:2.9

    Parameters
    ----------
    name
        Its name.
    architecture
        The processor it is for.
    """
    return show_named(shown, COLUMNS, lambda client: client.images.get(name, architecture=architecture))


def change(
    name: str,
    /,
    *,
    architecture: str = ARCHITECTURE,
    digest: str | None = None,
    least: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    server: ActionOptions = DEFAULT_ACTION,
) -> int:
    """Make an image known, or change one.

    For example:
      sokovan image set pytorch/pytorch:2.9 --least mem=4GiB

    Parameters
    ----------
    name
        Its name.
    architecture
        The processor it is for.
    digest
        What it must be, exactly: sha256:...
    least
        What a kernel of it needs at least: mem=4GiB. May be given repeatedly.
    """
    said = {"digest": digest, "slots_min": read_amounts(least, option="--least")}
    with server.client() as client:
        body, is_new = changed(
            lambda: client.images.get(name, architecture=architecture),
            lambda: ImageBody(name=name, architecture=architecture),
            said,
        )
        kept = client.images.put(body)
    return tell_changed(server, "image", kept, is_new=is_new)


def remove(
    name: str, /, *, architecture: str = ARCHITECTURE, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER
) -> int:
    """Forget an image.

    For example:
      sokovan image rm pytorch/pytorch:2.9 --yes

    Parameters
    ----------
    name
        Its name.
    architecture
        The processor it is for.
    """
    return remove_named(
        server,
        "image",
        name,
        yes=yes,
        look=lambda client: client.images.get(name, architecture=architecture),
        act=lambda client: client.images.delete(name, architecture=architecture),
    )
