"""Builds and runs the agent of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import fraction, secret_text
from sokovan.adapters.process.files.disk_usage import CHECK_EVERY_S, DiskUsage
from sokovan.adapters.process.files.output_collection import COLLECT_EVERY_S, OutputCollector
from sokovan.adapters.process.files.process_files import ProcessFiles
from sokovan.adapters.process.launch.upload_folders import UploadFolders
from sokovan.agent.devices.detection import nvidia_devices
from sokovan.agent.devices.device_check import DeviceCheck
from sokovan.agent.devices.found_devices import FoundDevices
from sokovan.agent.devices.mig_slices import SliceHealth
from sokovan.agent.inventory import Inventory, InventoryOptions, read_reserve, take_inventory
from sokovan.agent.journal import Journal
from sokovan.agent.link.data_listener import DataListener, DataSocket
from sokovan.agent.link.manager_addresses import ManagerAddresses
from sokovan.agent.link.manager_link import ManagerAddress
from sokovan.agent.link.upload_stream import UploadReceiver
from sokovan.agent.runner import AgentEnvironment, AgentRunner
from sokovan.domain.cluster.agent import (
    ACCOUNTS_DEFAULT,
    DATA_LABEL,
    PORTS_DEFAULT,
    PORTS_LABEL,
    PROCESS_RUNTIME,
    RUNTIME_LABEL,
    port_range_text,
    read_account_range,
    read_port_range,
)
from sokovan.domain.slots import CUDA_SHARES_SLOT
from sokovan.entrypoints.agent_runtimes import AgentRuntime, KernelIsolation, RuntimeOptions, built_runtime
from sokovan.entrypoints.settings.setting_sections import AgentSettings, read_label

JOURNAL = "journal"
IDENTITY = "identity"
KERNELS = "kernels"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options of an agent; `root` is its private folder.

    `addresses` are those of managers that it has joined, with its certificate; `data` is
    where gateways on other machines reach its kernels. `beside` is run with it.
    """

    manager: str
    token: str = field(repr=False)
    root: Path = Path()
    name: str = ""
    scaling_group: str = "default"
    fake_gpus: int = 0
    gpu_shares: bool = False
    kernel_ports: str = ""
    data_listen: str = ""
    shard: str = ""
    kernels_max: int | None = None
    reserve: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[Path, ...] = ()
    accounts: str = ACCOUNTS_DEFAULT
    runtime: str = PROCESS_RUNTIME
    engine: str = ""
    read_only_root: bool = True
    session_networks: str = ""
    device_check_s: float = 30.0
    addresses: ManagerAddresses | None = None
    data: DataSocket | None = None
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None


def agent_options_of(settings: AgentSettings, *, manager: str, token: str, root: Path) -> AgentOptions:
    """Options of the agent of this machine."""
    return AgentOptions(
        manager=manager,
        token=token,
        root=root,
        name=settings.name,
        scaling_group=settings.scaling_group,
        fake_gpus=settings.fake_gpus,
        gpu_shares=settings.gpu_shares,
        kernel_ports=settings.kernel_ports,
        data_listen=settings.data_listen,
        shard=settings.shard,
        kernels_max=settings.kernels_max or None,
        reserve=settings.reserve,
        accounts=settings.accounts,
        runtime=settings.runtime,
        engine=settings.engine,
        read_only_root=settings.read_only_root,
        session_networks=settings.session_networks,
        device_check_s=settings.device_check_s,
        labels=dict(map(read_label, settings.labels)),
    )


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """An agent that is ready to run."""

    inventory: Inventory
    runtime: AgentRuntime
    runner: AgentRunner
    addresses: ManagerAddresses
    confinement: KernelIsolation
    outputs: OutputCollector
    disk: DiskUsage
    devices: DeviceCheck
    device_check_s: float
    data: DataListener | None = None
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None

    def summary(self) -> str:
        """The resources of the agent and the isolation of its kernels, in one line."""
        slots = self.inventory.slots
        shared = " in shares" if slots[CUDA_SHARES_SLOT] else ""
        devices = f"{len(self.inventory.devices)} devices{shared}"
        amounts = f"{slots['cpu'] / 1000:g} cpu, {slots['mem'] / (1 << 30):.1f} GiB, {devices}"
        return f"{self.inventory.agent_id}: {amounts}; {self.confinement.in_words()}"

    async def run(self) -> None:
        """Run until cancelled; kernels keep running."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_collect_outputs(self.outputs))
            tasks.create_task(_check_disk(self.disk))
            tasks.create_task(self.devices.run(self.device_check_s))
            if self.data is not None:
                tasks.create_task(self.data.run())
            if self.beside is not None:
                tasks.create_task(self.beside())
            tasks.create_task(self.runner.run(self.addresses))


async def _collect_outputs(outputs: OutputCollector) -> None:
    """Remove output by its retention and limits; runs until cancelled."""
    clock = SystemClock()
    while True:
        await asyncio.to_thread(outputs.collect_logged, clock.now_ms())
        await clock.sleep(COLLECT_EVERY_S)


async def _check_disk(disk: DiskUsage) -> None:
    """Measure the folders of running kernels, and enforce their limits; runs until cancelled."""
    clock = SystemClock()
    while True:
        await asyncio.to_thread(disk.check_logged)
        await clock.sleep(CHECK_EVERY_S)


async def build_agent(options: AgentOptions, stack: contextlib.ExitStack, *, log: Callable[[str], None]) -> LocalAgent:
    """Take the inventory of this machine and build an agent for it.

    Resources to close are pushed onto `stack`. Raises InvalidInput, JournalInUse, RuntimeFailure.
    """
    clock = SystemClock()
    addresses = options.addresses or ManagerAddresses([ManagerAddress(options.manager, options.token)])
    journal = stack.enter_context(contextlib.closing(Journal.open(options.root / JOURNAL)))
    root = options.root / KERNELS
    uploads = UploadFolders(root, UploadReceiver(addresses))
    hidden = (options.root.parent, *options.hidden)
    real = await asyncio.to_thread(nvidia_devices)
    wanted = RuntimeOptions(
        root,
        hidden=hidden,
        accounts=read_account_range(options.accounts),
        runtime=options.runtime,
        engine=options.engine,
        read_only_root=options.read_only_root,
        session_networks=options.session_networks,
        slices=real.nodes,
    )
    runtime, confinement, watch, disk = await built_runtime(wanted, clock, uploads, log=log)
    stack.callback(runtime.close)
    outputs = OutputCollector(root, log)
    files = ProcessFiles(root, uploads=uploads, outputs=outputs, hidden=(root, *hidden))
    data = None if options.data is None else DataListener(options.data, runtime.connect, log)
    requested = InventoryOptions(
        agent_id=options.name,
        scaling_group=options.scaling_group,
        labels={**confinement.labels(), **_labels(options)},
        fake_gpus=options.fake_gpus,
        gpu_shares=options.gpu_shares,
        kernels_max=options.kernels_max,
        reserved=read_reserve(options.reserve),
        shard=options.shard,
    )
    found = await asyncio.to_thread(take_inventory, requested, real=real)
    inventory = replace(
        found,
        identity=stored_identity(options.root / IDENTITY),
        process=secret_text(16),
        images=await runtime.installed_images(),
    )
    environment = AgentEnvironment(root=options.root, clock=clock, jitter=fraction, log=log, watch=watch, files=files)
    if data is not None:
        environment = replace(environment, keyed=data.set_key)
    runner = AgentRunner(inventory, runtime, journal, environment)
    return LocalAgent(
        inventory,
        runtime,
        runner,
        addresses,
        confinement,
        outputs,
        disk,
        _device_check(runner, inventory, real, log),
        options.device_check_s,
        data,
        options.beside,
    )


def _device_check(
    runner: AgentRunner, inventory: Inventory, real: FoundDevices, log: Callable[[str], None]
) -> DeviceCheck:
    """The check of the agent's devices and of their slices."""
    return DeviceCheck(
        inventory.devices,
        SystemClock(),
        report=runner.devices_checked,
        measured=runner.devices_measured,
        log=log,
        read=SliceHealth(real.parents).read,
    )


def _labels(options: AgentOptions) -> dict[str, str]:
    """The labels that follow from the options, and not from the machine."""
    at = {} if options.data is None else {DATA_LABEL: options.data.address}
    return {**options.labels, RUNTIME_LABEL: options.runtime, **_port_label(options.kernel_ports), **at}


def _port_label(ports: str) -> dict[str, str]:
    """The label for the ports of kernels; none for the default."""
    found = read_port_range(ports) if ports else PORTS_DEFAULT
    return {} if found == PORTS_DEFAULT else {PORTS_LABEL: port_range_text(found)}


def stored_identity(path: Path) -> str:
    """The identity of the agent of this folder, created once.

    The caller holds the lock of the journal, so that no other process creates one. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        known = path.read_text(encoding="utf-8").strip()
        if known:
            return known
    created = secret_text(16)
    write_whole(path, f"{created}\n".encode())
    return created


def run_agent(
    options: AgentOptions, log: Callable[[str], None], beside: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> int:
    """Run an agent until SIGINT or SIGTERM; its kernels keep running.

    `beside` is run with it.
    """

    async def work() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        with contextlib.ExitStack() as stack:
            parts = await build_agent(options, stack, log=log)
            managers = ", ".join(address.url for address in parts.addresses)
            log(f"agent {parts.inventory.agent_id} connects to {managers}; {parts.confinement.in_words()}")
            renewal = asyncio.create_task(beside()) if beside is not None else None
            running = asyncio.create_task(parts.run())
            waiting = asyncio.create_task(stopped.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            if renewal is not None:
                renewal.cancel()
                await asyncio.gather(renewal, return_exceptions=True)

    asyncio.run(work())
    return 0
