"""`sokovan topology`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from sokovan.cli import formatting
from sokovan.cli.arguments.parameters import Parameter
from sokovan.cli.commands.catalog.catalog_actions import list_all
from sokovan.cli.commands.options import DEFAULT_SERVER, TABLE_OUTPUT, Flag, OutputOptions, ServerOptions, Yes
from sokovan.cli.commands.sessions.session_options import read_text_file
from sokovan.cli.errors import CommandError
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm
from sokovan.cli.rendering import Column, show_all
from sokovan.wire.api.topology import TopologyChangeView, TopologyNode

HYPERNODE = "hypernode"


def apply(
    *,
    file: Annotated[str, Parameter(name=["--file", "-f"])],
    dry_run: Flag = False,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Replace the topology with that of a file.

    Sessions whose hard topology constraint the new topology does not meet are
    reported; they keep running.

    For example:
      sokovan topology apply -f topology.yaml --dry-run
      sokovan topology apply -f topology.yaml

    Parameters
    ----------
    file
        Topology file (YAML); - for stdin.
    dry_run
        Only check the file, and change nothing.
    """
    from sokovan.sdk.spec.topology_spec import read_topology_file  # noqa: PLC0415  # YAML loads only here

    body = read_topology_file(*read_text_file(file))
    with server.client() as client:
        change = client.topology.apply(body, dry_run=dry_run)
    report_change(change)
    return OK


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List HyperNodes with their free resources.

    For example:
      sokovan topology ls
    """
    columns: list[Column[TopologyNode]] = [Column("name", lambda node: node.name), *_columns()]
    return list_all(
        output, columns, lambda client: (node for node in client.topology.get().tree if node.kind == HYPERNODE)
    )


def show(name: str | None = None, /, *, output: OutputOptions = TABLE_OUTPUT) -> int:
    """Show the topology as a tree with free and total resources.

    For example:
      sokovan topology show
      sokovan topology show z1/r01
      sokovan topology show --json

    Parameters
    ----------
    name
        Only this HyperNode or agent, and what is below it.
    """
    fmt = output.format()
    with output.client() as client:
        tree = client.topology.get().tree
    if name is not None:
        tree = _below(tree, name)
    drawn = {node.name: text for node, text in zip(tree, tree_lines(tree), strict=True)}
    columns: list[Column[TopologyNode]] = [
        Column("name", lambda node: drawn[node.name] if fmt.is_table else node.name),
        *_columns(),
        Column("state", lambda node: node.status.upper()),
    ]
    show_all(tree, columns, fmt, name=lambda node: node.name)
    return OK


def rm(*, dry_run: Flag = False, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Remove the topology; agents are then in no HyperNode.

    For example:
      sokovan topology rm --dry-run
      sokovan topology rm --yes

    Parameters
    ----------
    dry_run
        Only report what that does, and change nothing.
    """
    if not dry_run:
        confirm("remove the topology", yes=yes)
    with server.client() as client:
        change = client.topology.delete(dry_run=dry_run)
    report_change(change)
    return OK


def report_change(change: TopologyChangeView) -> None:
    """Print the result of a change, and the constraints that are not met."""
    outside = f", {change.unplaced} of them in none" if change.unplaced else ""
    done = "applied" if change.applied else "dry run, nothing changed"
    print_status(f"{done}: {change.hypernodes} HyperNodes over {change.agents} agents{outside}")
    for one in change.violations:
        group = f" group {one.group}" if one.group else ""
        print_status(f"not met: {one.name or one.session} {one.status.upper()}{group} {one.constraint}: {one.problem}")
    if change.violation_count > len(change.violations):
        print_status(f"not met: {change.violation_count - len(change.violations)} more")


def tree_lines(tree: Sequence[TopologyNode]) -> list[str]:
    """The names of a tree that is given depth first, each with its branch."""
    return [branch + node.name for node, branch in zip(tree, _branches(tree), strict=True)]


def _branches(tree: Sequence[TopologyNode]) -> Iterator[str]:
    """The lines left of each name: one part per level above it."""
    names = {node.name for node in tree}
    last = {node.parent: node.name for node in tree}
    rails: dict[str, str] = {}
    for node in tree:
        if node.parent not in names:
            rails[node.name] = ""
            yield ""
            continue
        ends = last[node.parent] == node.name
        rails[node.name] = rails[node.parent] + ("   " if ends else "│  ")
        yield rails[node.parent] + ("└─ " if ends else "├─ ")


def _below(tree: Sequence[TopologyNode], name: str) -> list[TopologyNode]:
    """A node and all that is below it. Raises CommandError."""
    inside: set[str] = set()
    for node in tree:
        if node.name == name or node.parent in inside:
            inside.add(node.name)
    if not inside:
        problem = f"there is no HyperNode or agent {name[:60]!r}"
        raise CommandError(problem, code="not-found", hint="sokovan topology show lists them")
    return [node for node in tree if node.name in inside]


def _columns() -> list[Column[TopologyNode]]:
    return [
        Column("tier", lambda node: f"{node.tier} {node.tier_name}".rstrip() if node.tier else ""),
        Column("agents", lambda node: str(node.agents) if node.kind == HYPERNODE else ""),
        Column("gpu free", lambda node: formatting.share(formatting.gpu_slot(node.slots), node.free, node.slots)),
        Column("cpu free", lambda node: formatting.share("cpu", node.free, node.slots)),
        Column("mem free", lambda node: formatting.share("mem", node.free, node.slots)),
        Column("from", lambda node: node.origin, wide=True),
    ]
