"""Builds the creation requests of kernels: ranks, hosts, rendezvous address.

They depend on the placement, so a pure function computes them at the start. The world is
the kernels that are placed; waiting for others could block forever. Ranks are stored with
the placement: 0 to n-1 in the order of the indexes for those placed together, and the
following ones for those placed later, of which the earlier ones are not notified.

A kernel is what torchrun calls a node: it sees its own devices and no others, so RANK,
NODE_RANK and GROUP_RANK are all its rank, LOCAL_RANK is 0 and LOCAL_WORLD_SIZE 1. Its rank
among the session's kernels on the same machine is SOKOVAN_LOCAL_RANK, which is MPI's local
rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from sokovan.domain.arrays import array_name
from sokovan.domain.cluster.image import image_reference
from sokovan.domain.ids import AgentId
from sokovan.domain.owners.outputs import OutputLimits
from sokovan.domain.owners.uploads import owner_key, upload_reference
from sokovan.domain.records import KernelRecord, SessionRecord
from sokovan.domain.serving.engine import LOOPBACK, SERVICE_PORT, with_port
from sokovan.domain.session import MASTER_LEASE, MASTER_PORT, KernelSpec, SessionSpec, SessionType
from sokovan.ports.secrets import SecretBox, SecretsUnreadable
from sokovan.wire.frames import CreateKernel, MountEntry, OutputTerms

# Relative to the working folder; the runtime turns it into an absolute path.
HOSTFILE = "hostfile"
# A longer list of hosts is in the host file only: Linux limits a variable to 128 KiB.
HOSTS_BYTES_MAX = 100_000

# Variables that the system sets besides SOKOVAN_...; a request must not set them.
RESERVED = frozenset(
    {
        "MASTER_ADDR",
        MASTER_PORT,
        "WORLD_SIZE",
        "RANK",
        "NODE_RANK",
        "GROUP_RANK",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_NODE_RANK",
    }
)


def launches(
    session: SessionRecord,
    addresses: Mapping[AgentId, str],
    outputs: OutputLimits | None = None,
    *,
    only: Sequence[KernelRecord] | None = None,
    secrets: SecretBox | None = None,
    is_alone: bool = False,
) -> Sequence[CreateKernel]:
    """The creation requests of these kernels; by default of all placed ones, by rank.

    `addresses` are where other machines reach the kernels of an agent; an agent without
    one counts as this machine; `outputs` are the limits of what is kept after the end.
    `secrets` opens the secret variables, here and nowhere else. With `is_alone` the system
    still has one user. Raises SecretsUnreadable.
    """
    neighbours = _Neighbours(session, addresses)
    terms = _output_terms(session, outputs or OutputLimits())
    wanted = neighbours.kernels if only is None else only
    opened, owns_folders = _opened(session, secrets), session.spec.owns_folders and is_alone
    found = [_launch(session, kernel, neighbours, terms) for kernel in wanted]
    if not opened and not owns_folders:
        return found
    return [replace(one, environment={**opened, **one.environment}, owns_folders=owns_folders) for one in found]


def _opened(session: SessionRecord, secrets: SecretBox | None) -> Mapping[str, str]:
    if not session.spec.secrets:
        return {}
    if secrets is None or not session.sealed:
        raise SecretsUnreadable(f"the secrets of session {session.session_id} are not there")
    return secrets.open(session.sealed, owner=session.spec.owner.user)


def _output_terms(session: SessionRecord, limits: OutputLimits) -> OutputTerms:
    of_policy = session.spec.kernel_disk_max
    return OutputTerms(
        owner=owner_key(session.spec.owner.user),
        retention_s=limits.retention_s,
        session_bytes_max=limits.session_bytes_max,
        owner_bytes_max=limits.owner_bytes_max,
        kernel_disk_max=limits.kernel_disk_max if of_policy is None else of_policy,
        owner_disk_max=limits.owner_disk_max,
    )


def port_variable(name: str) -> str:
    """The variable with the port of a kernel's service."""
    return "SOKOVAN_PORT_" + "".join(letter if letter.isalnum() else "_" for letter in name.upper())


class _Neighbours:
    """The placed kernels of a session, with their hosts and ranks."""

    def __init__(self, session: SessionRecord, addresses: Mapping[AgentId, str]) -> None:
        placed = [kernel for kernel in session.kernels if kernel.agent_id is not None]
        self.kernels = sorted(placed, key=lambda kernel: kernel.rank or 0)
        # Without a network a kernel reaches itself only.
        self._addresses = {} if session.spec.isolated_network else addresses
        leased = [one.host_ports[MASTER_LEASE] for one in self.kernels if MASTER_LEASE in one.host_ports]
        # A kernel alone without accelerators has none, see `needs_master_port`.
        self.master_port = {MASTER_PORT: str(leased[0])} if leased else {}
        self.hosts = [self.address(kernel) for kernel in self.kernels]
        # One text for all kernels: built for each, the lists of a gang would grow with the square of its size.
        listed = ",".join(self.hosts)
        self.host_list = {"SOKOVAN_HOSTS": listed} if len(listed) <= HOSTS_BYTES_MAX else {}
        self.hostfile = "".join(f"{host} slots={count}\n" for host, count in Counter(self.hosts).items())
        self.per_agent = Counter(kernel.agent_id for kernel in self.kernels)
        # A kernel that starts later may be placed elsewhere; gateways reach replicas at the machine's address.
        whole = len(self.kernels) == len(session.kernels) and session.spec.gang_size == len(session.kernels)
        serves = session.spec.session_type is SessionType.INFERENCE
        self.are_together = whole and len(self.per_agent) == 1 and not serves
        # A kernel that is being placed again has a rank, too.
        self.size = 1 + max((kernel.rank or 0 for kernel in session.kernels), default=0)
        seen: Counter[AgentId | None] = Counter()
        self.local_rank: dict[int, int] = {}
        for kernel in self.kernels:
            self.local_rank[kernel.index] = seen[kernel.agent_id]
            seen[kernel.agent_id] += 1

    def address(self, kernel: KernelRecord) -> str:
        """The address at which other kernels reach this one."""
        return LOOPBACK if kernel.agent_id is None else self._addresses.get(kernel.agent_id, LOOPBACK)


def _launch(session: SessionRecord, kernel: KernelRecord, neighbours: _Neighbours, output: OutputTerms) -> CreateKernel:
    spec = session.spec.kernels[kernel.index]
    command, environment = _with_service_port(session.spec, spec, kernel)
    return CreateKernel(
        kernel_id=kernel.kernel_id,
        attempt=kernel.attempt,
        session_id=session.session_id,
        image=image_reference(spec.image, session.spec.image_digests),
        command=command,
        environment={**environment, **_cluster_variables(session, kernel, neighbours)},
        files={HOSTFILE: neighbours.hostfile},
        workdir=session.spec.workdir,
        upload=upload_reference(session.spec.owner.user, session.spec.upload) if session.spec.upload else "",
        output=output,
        mounts=tuple(MountEntry(one.source, one.target, one.read_only) for one in session.spec.mounts),
        slots=dict(kernel.slots),
        devices={slot: tuple(devices) for slot, devices in kernel.devices.items()},
        watch_idle=session.spec.idle_timeout_s is not None,
        isolated_network=session.spec.isolated_network,
        own_network=neighbours.are_together,
        ports=() if session.spec.isolated_network else tuple(sorted(kernel.host_ports.values())),
    )


def _with_service_port(
    session: SessionSpec, spec: KernelSpec, kernel: KernelRecord
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Command and variables with the leased port of a replica, which is known only now.

    Commands of other sessions are the user's own words and stay as they are.
    """
    port = kernel.host_ports.get(SERVICE_PORT)
    if port is None or session.session_type is not SessionType.INFERENCE:
        return spec.command, spec.environment
    command = tuple(with_port(word, port) for word in spec.command)
    return command, {name: with_port(value, port) for name, value in spec.environment.items()}


def _cluster_variables(session: SessionRecord, kernel: KernelRecord, neighbours: _Neighbours) -> dict[str, str]:
    rank, size = str(kernel.rank), str(neighbours.size)
    local_rank, local_size = str(neighbours.local_rank[kernel.index]), str(neighbours.per_agent[kernel.agent_id])
    return {
        **_array_variables(session.spec),
        "SOKOVAN_SESSION_ID": session.session_id,
        "SOKOVAN_SESSION_NAME": session.spec.name or session.session_id,
        "SOKOVAN_KERNEL": kernel.kernel_id,
        "SOKOVAN_ROLE": session.spec.kernels[kernel.index].group or "main",
        "SOKOVAN_RANK": rank,
        "SOKOVAN_SIZE": size,
        "SOKOVAN_LOCAL_RANK": local_rank,
        "SOKOVAN_LOCAL_SIZE": local_size,
        **neighbours.host_list,
        "SOKOVAN_HOSTFILE": HOSTFILE,
        **{port_variable(name): str(port) for name, port in kernel.host_ports.items() if name != MASTER_LEASE},
        "MASTER_ADDR": neighbours.hosts[0],
        **neighbours.master_port,
        "WORLD_SIZE": size,
        "RANK": rank,
        "NODE_RANK": rank,
        "GROUP_RANK": rank,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "OMPI_COMM_WORLD_SIZE": size,
        "OMPI_COMM_WORLD_RANK": rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": local_size,
        "OMPI_COMM_WORLD_LOCAL_RANK": local_rank,
        "OMPI_COMM_WORLD_NODE_RANK": local_rank,
    }


def _array_variables(spec: SessionSpec) -> dict[str, str]:
    array = spec.array
    if array is None:
        return {}
    return {
        "SOKOVAN_ARRAY_ID": array.array_id,
        "SOKOVAN_ARRAY_NAME": array_name(spec.name),
        "SOKOVAN_ARRAY_INDEX": str(array.index),
        "SOKOVAN_ARRAY_COUNT": str(array.size),
        "SOKOVAN_ARRAY_MIN": str(array.first),
        "SOKOVAN_ARRAY_MAX": str(array.last),
    }
