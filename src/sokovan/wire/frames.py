"""Frames of the protocol between agent and manager.

Readers skip unknown fields, so that a release may add optional ones; any other change
needs a new PROTOCOL, which the peer refuses with a message.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

PROTOCOL = 1
# Images that an agent names when it enrols.
IMAGES_MAX = 256
MANAGERS_MAX = 64
# Ports leased to a kernel.
PORTS_MAX = 1024
# Requests in a bundle; an agent has room for more at a time.
BUNDLE_MAX = 64
# Paths that agents connect to: for the link, and for each stream, followed by its id.
LINK_PATH = "/agent/v1/link"
STREAM_PATH = "/agent/v1/stream/"
# Path at which an agent fetches an upload, followed by its reference.
UPLOAD_PATH = "/agent/v1/upload/"
# The same for another manager, which keeps a copy of it.
COPY_PATH = "/agent/v1/copy/"
# Code of a refusal: another process runs as this agent, with a later incarnation.
SUPERSEDED = "superseded"

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
ShortText: TypeAlias = Annotated[str, Meta(max_length=512)]
LongText: TypeAlias = Annotated[str, Meta(max_length=8192)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]


class DeviceEntry(Struct, frozen=True):
    """One accelerator of an agent."""

    device_id: ShortText
    slot: ShortText
    units: Count = 1


class CheckpointEntry(Struct, frozen=True, array_like=True):
    """The last checkpoint that a kernel reported; `done`: nothing is left to do."""

    at_ms: Count
    step: Count | None = None
    done: bool = False


class KernelEntry(Struct, frozen=True, array_like=True):
    """The state of one kernel; encoded as an array, since heartbeats have many.

    `reason` explains an end beyond its exit code. `idle_s` is how long the kernel has been
    idle, if its launch asks for that.
    """

    kernel_id: ShortText
    attempt: Count
    running: bool
    exit_code: int | None = None
    reason: ShortText = ""
    idle_s: Count | None = None
    checkpoint: CheckpointEntry | None = None


class MountEntry(Struct, frozen=True):
    """A folder of the machine, mounted into a kernel at `target`."""

    source: str
    target: str
    read_only: bool = True


class OutputTerms(Struct, frozen=True):
    """How long and how much of a kernel's output is kept on its agent after its end.

    `owner` is the namespace of the user, whose outputs on an agent count together. While
    kernels run, `kernel_disk_max` bytes are the limit of the folders of each, and
    `owner_disk_max` that of all of the owner's on the agent; 0 is no limit.
    """

    owner: ShortText
    retention_s: Count
    session_bytes_max: Count
    owner_bytes_max: Count
    kernel_disk_max: Count = 0
    owner_disk_max: Count = 0


class CreateKernel(Struct, frozen=True, tag="create-kernel", omit_defaults=True):
    """Start a kernel, once per (kernel, attempt).

    `command` is an argument list, never a shell line. `files` maps paths below the working
    folder to their text. `slots` are limits where the machine can enforce them (cpu in
    millicores, mem in bytes); `devices` are the device ids that the kernel may use, by slot.
    `upload` is the reference of a folder that the agent fetches, for the kernels of the
    session to run in. With `output` the kernel has a folder whose files outlive it; with
    `watch_idle`, heartbeats say how long the kernel has been idle. With `owns_folders` its
    user is the only one of the system, and the folders of the agent's account are theirs.
    With `isolated_network` it reaches nothing but itself; with `own_network` all kernels of
    its session are on this agent, which may give them a network. `ports` are leased to it: it does
    not start if another program has one. `incarnation` is set by the agent that starts it.
    """

    kernel_id: ShortText
    attempt: Count
    session_id: ShortText
    image: ShortText
    command: tuple[str, ...]
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    workdir: str = ""
    upload: ShortText = ""
    output: OutputTerms | None = None
    mounts: tuple[MountEntry, ...] = ()
    slots: dict[ShortText, Count] = {}
    devices: dict[ShortText, tuple[ShortText, ...]] = {}
    processes_max: Count = 4096
    log_bytes_max: Count = 64 << 20
    watch_idle: bool = False
    owns_folders: bool = False
    isolated_network: bool = False
    own_network: bool = False
    ports: Annotated[tuple[int, ...], Meta(max_length=PORTS_MAX)] = ()
    incarnation: Count = 0


class StopKernel(Struct, frozen=True, tag="stop-kernel", omit_defaults=True):
    """Stop a kernel, by force after `grace_s`; it finds `notice` in a file before."""

    kernel_id: ShortText
    attempt: Count
    grace_s: Seconds
    notice: LongText = ""


class ForgetKernel(Struct, frozen=True, tag="forget-kernel"):
    """Remove what is kept of an ended kernel."""

    kernel_id: ShortText
    attempt: Count


class PrepareImage(Struct, frozen=True, tag="prepare-image"):
    """Prepare an image, or report its progress."""

    image: ShortText


class ReadLog(Struct, frozen=True, tag="read-log"):
    """Read a part of a kernel's output."""

    kernel_id: ShortText
    attempt: Count
    offset: Count
    limit: Count


class MeasureKernel(Struct, frozen=True, tag="measure-kernel"):
    """Measure what a kernel uses now; only for agents whose Hello has `measures`."""

    kernel_id: ShortText
    attempt: Count


class ListFiles(Struct, frozen=True, kw_only=True, tag="list-files"):
    """List the files below a path of a kernel, those after `after` in their order."""

    kernel_id: ShortText
    attempt: Count
    path: LongText
    after: LongText = ""
    files_max: Count


class ReadFile(Struct, frozen=True, kw_only=True, tag="read-file"):
    """Read a part of a file of a kernel; `mark` is that of the part before."""

    kernel_id: ShortText
    attempt: Count
    path: LongText
    offset: Count
    limit: Count
    mark: ShortText = ""


class PlaceUpload(Struct, frozen=True, kw_only=True, tag="place-upload"):
    """Copy an upload to a path of a running kernel, or report the progress of that."""

    kernel_id: ShortText
    attempt: Count
    upload: ShortText
    path: LongText


class OpenStream(Struct, frozen=True, kw_only=True, tag="open-stream"):
    """Run a further command in a kernel, over a separate connection of the agent.

    `stream_id` is valid for one connection of this agent. With `port` it is a connection to
    this port of the kernel, and no command.
    """

    stream_id: ShortText
    kernel_id: ShortText
    attempt: Count
    command: tuple[str, ...] = ()
    terminal: bool = False
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0


class Done(Struct, frozen=True, tag="done"):
    """Success without a result."""


class KernelGone(Struct, frozen=True, tag="gone", omit_defaults=True):
    """Whether nothing of a kernel runs any more.

    `by_itself`: it ended before it was asked to stop.
    """

    gone: bool
    exit_code: int | None = None
    detail: dict[str, str] = {}
    checkpoint: CheckpointEntry | None = None
    by_itself: bool = False


class ImageStatus(Struct, frozen=True, tag="image", omit_defaults=True):
    """An image on an agent: ready, pulling, failed or missing."""

    image: ShortText
    state: ShortText
    detail: LongText = ""


class LogData(Struct, frozen=True, tag="log", omit_defaults=True):
    """A part of a kernel's output."""

    offset: Count
    data: bytes
    end: bool = False


class UseFigures(Struct, frozen=True, tag="use", omit_defaults=True):
    """Measured use of a kernel; absent figures cannot be measured."""

    sampled_ms: Count
    cpu_ms: Count | None = None
    memory_bytes: Count | None = None
    processes: Count | None = None


class FileEntry(Struct, frozen=True, array_like=True):
    """One regular file, by its path below the listed one; empty for that itself."""

    path: LongText
    size: Count
    modified_ms: int
    executable: bool = False


class OutputStatus(Struct, frozen=True, omit_defaults=True):
    """The output of a kernel, and what its owner has on the agent, in bytes.

    `kept_until_ms` is missing while the kernel runs. `dropped` files exceeded a limit.
    """

    session_bytes_max: Count
    owner_bytes: Count
    owner_bytes_max: Count
    kept_until_ms: Count | None = None
    dropped_files: Count = 0
    dropped_bytes: Count = 0


class FileList(Struct, frozen=True, kw_only=True, tag="files", omit_defaults=True):
    """A page of the files below a path; `more` follow after the last one.

    `left_out` counts links, devices and names that cannot be copied; some are named.
    """

    is_folder: bool
    files: tuple[FileEntry, ...] = ()
    more: bool = False
    left_out: Count = 0
    left_out_names: tuple[LongText, ...] = ()
    output: OutputStatus | None = None


class FileData(Struct, frozen=True, tag="file-data"):
    """A part of a file, the size of the whole, and what identifies it."""

    data: bytes
    size: Count
    mark: ShortText


class UploadPlaced(Struct, frozen=True, tag="placed"):
    """Whether an upload was copied, and to which path."""

    done: bool
    path: LongText


Command: TypeAlias = (
    CreateKernel
    | StopKernel
    | ForgetKernel
    | PrepareImage
    | ReadLog
    | MeasureKernel
    | OpenStream
    | ListFiles
    | ReadFile
    | PlaceUpload
)
Reply: TypeAlias = Done | KernelGone | ImageStatus | LogData | UseFigures | FileList | FileData | UploadPlaced


class Hello(Struct, frozen=True, kw_only=True, tag="hello", omit_defaults=True):
    """The first frame of a link, from the agent: its identity and resources.

    `incarnation` is the one that this process was accepted as before; 0 after a start,
    which requests a new one. `kernels` are all that the agent manages, running or ended;
    with `partial` some of the ended ones are left out, as in a heartbeat.
    `identity` distinguishes machines and folders of the same name, `process` the processes
    of one agent: all links of a process have the same incarnation. `images` are those that
    kernels can start in at once. With `bundles` the agent reads RequestBundle, with
    `measures` MeasureKernel.
    """

    agent_id: ShortText
    software: ShortText
    identity: ShortText = ""
    process: ShortText = ""
    incarnation: Count = 0
    architecture: ShortText = ""
    scaling_group: ShortText = ""
    slots: dict[ShortText, Count] = {}
    devices: tuple[DeviceEntry, ...] = ()
    labels: dict[ShortText, ShortText] = {}
    kernels_max: Count | None = None
    kernels: tuple[KernelEntry, ...] = ()
    partial: bool = False
    shard: ShortText = ""
    images: Annotated[tuple[ShortText, ...], Meta(max_length=IMAGES_MAX)] = ()
    bundles: bool = False
    measures: bool = False


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome", omit_defaults=True):
    """The manager's acceptance of a Hello.

    With `kept_max` the agent forgets kernels by itself, once their end is confirmed: beyond
    that number and after `kept_s`. It does not list them any more. `data_key` is the key of
    the tickets with which proxies reach its kernels. `managers` are the URLs of all managers
    for agents that have joined, if there are several.
    """

    incarnation: Annotated[int, Meta(ge=1)]
    heartbeat_s: Annotated[float, Meta(ge=0.01, le=3600)]
    draining: bool = False
    kept_max: Count | None = None
    kept_s: Count = 0
    data_key: Annotated[str, Meta(max_length=128)] = ""
    managers: Annotated[tuple[ShortText, ...], Meta(max_length=MANAGERS_MAX)] = ()


class HelloRefused(Struct, frozen=True, kw_only=True, tag="refusal", omit_defaults=True):
    """The manager's refusal of a Hello; it then closes the link.

    `final` means that reconnecting fails until an operator fixes the cause.
    """

    code: ShortText
    message: LongText
    final: bool = False


class DeviceLoad(Struct, frozen=True, array_like=True):
    """The use of a device; None where it is unknown."""

    use_percent: Count | None = None
    memory_used_bytes: Count | None = None
    memory_bytes: Count | None = None
    temperature_c: Count | None = None


class Heartbeat(Struct, frozen=True, kw_only=True, tag="heartbeat", omit_defaults=True):
    """The complete state of the agent, not only its changes.

    With `partial`, kernels are left out because the frame would be too large: the absence
    of one means nothing. They follow once others are forgotten. `faults` are devices that
    should get no new kernels, with the reason; `devices` what each does.
    """

    incarnation: Count
    sequence: Count
    kernels: tuple[KernelEntry, ...] = ()
    images: tuple[ImageStatus, ...] = ()
    load: dict[ShortText, Count] = {}
    partial: bool = False
    faults: dict[ShortText, ShortText] = {}
    devices: dict[ShortText, DeviceLoad] = {}


class Request(Struct, frozen=True, kw_only=True, tag="request"):
    """A command to the agent; `number` increases along a link.

    `incarnation` is the one it is meant for, 0 if any. The request times out after
    `allowed_ms`.
    """

    number: Count
    incarnation: Count
    allowed_ms: Count
    command: Command = field(name="ask")


class CommonLaunch(Struct, frozen=True, omit_defaults=True):
    """Variables and files of all creations of one session in a bundle."""

    environment: dict[str, str] = {}
    files: dict[str, str] = {}


class RequestBundle(Struct, frozen=True, kw_only=True, tag="requests", omit_defaults=True):
    """Requests in one frame, each answered by itself.

    `common` has, by session, what its creations have in common and leave out, such as the
    list of the hosts of a gang.
    """

    requests: Annotated[tuple[Request, ...], Meta(max_length=BUNDLE_MAX)]
    common: dict[ShortText, CommonLaunch] = {}


class Response(Struct, frozen=True, tag="answer"):
    """The agent's result of a request."""

    number: Count
    reply: Reply


class RequestFailed(Struct, frozen=True, tag="problem"):
    """The agent's refusal of a request."""

    number: Count
    code: ShortText
    message: LongText


class ReportNow(Struct, frozen=True, tag="report-now"):
    """Requests a heartbeat now."""

    reason: ShortText = ""


Frame: TypeAlias = (
    Hello | Welcome | HelloRefused | Heartbeat | Request | RequestBundle | Response | RequestFailed | ReportNow
)
