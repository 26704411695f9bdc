"""What an agent and a manager say to each other on a link.

A reader skips fields that it does not know, so that a release may add optional ones;
anything else needs a new PROTOCOL, which the other side refuses in words.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

PROTOCOL = 1
# Where agents dial: for a link, and for each stream with its id after this.
LINK_PATH = "/agent/v1/link"
STREAM_PATH = "/agent/v1/stream/"

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Word: TypeAlias = Annotated[str, Meta(max_length=512)]
Prose: TypeAlias = Annotated[str, Meta(max_length=8192)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]


class DeviceEntry(Struct, frozen=True):
    """One accelerator of an agent."""

    device_id: Word
    slot: Word
    units: Count = 1


class KernelEntry(Struct, frozen=True, array_like=True):
    """One kernel as its agent sees it; an array, for a heartbeat has many.

    `reason` is the agent's word on an end of which more is known than its exit code.
    """

    kernel_id: Word
    attempt: Count
    running: bool
    exit_code: int | None = None
    reason: Word = ""


class MountEntry(Struct, frozen=True):
    """A folder of the machine, mounted into a kernel at `target`."""

    source: str
    target: str
    read_only: bool = True


class CreateKernel(Struct, frozen=True, tag="create-kernel", omit_defaults=True):
    """Start a kernel, once per (kernel, attempt).

    `command` is an argument list, never a shell line. `files` maps paths below the working
    folder to their text. `slots` are limits where the machine can enforce them (cpu in
    millicores, mem in bytes); `devices` are the device ids that the kernel may use, by slot.
    """

    kernel_id: Word
    attempt: Count
    session_id: Word
    image: Word
    command: tuple[str, ...]
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    workdir: str = ""
    mounts: tuple[MountEntry, ...] = ()
    slots: dict[Word, Count] = {}
    devices: dict[Word, tuple[Word, ...]] = {}
    processes_max: Count = 4096
    log_bytes_max: Count = 64 << 20


class StopKernel(Struct, frozen=True, tag="stop-kernel"):
    """End a kernel, by force after `grace_s`."""

    kernel_id: Word
    attempt: Count
    grace_s: Seconds


class ForgetKernel(Struct, frozen=True, tag="forget-kernel"):
    """Remove what is kept of an ended kernel."""

    kernel_id: Word
    attempt: Count


class PrepareImage(Struct, frozen=True, tag="prepare-image"):
    """Make an image ready, or say how far it is."""

    image: Word


class ReadLog(Struct, frozen=True, tag="read-log"):
    """A part of a kernel's output."""

    kernel_id: Word
    attempt: Count
    offset: Count
    limit: Count


class OpenStream(Struct, frozen=True, kw_only=True, tag="open-stream"):
    """Run a further command in a kernel, and dial a socket of its own for it.

    `stream_id` is good for one socket, and for the agent that was asked.
    """

    stream_id: Word
    kernel_id: Word
    attempt: Count
    command: tuple[str, ...]
    terminal: bool = False


class Done(Struct, frozen=True, tag="done"):
    """It is as was asked, and there is nothing to say about it."""


class KernelGone(Struct, frozen=True, tag="gone", omit_defaults=True):
    """Whether nothing of a kernel runs, for good."""

    gone: bool
    exit_code: int | None = None
    detail: dict[str, str] = {}


class ImageStatus(Struct, frozen=True, tag="image", omit_defaults=True):
    """An image on an agent: ready, pulling, failed or missing."""

    image: Word
    state: Word
    detail: Prose = ""


class LogData(Struct, frozen=True, tag="log", omit_defaults=True):
    """A piece of output."""

    offset: Count
    data: bytes
    end: bool = False


Ask: TypeAlias = CreateKernel | StopKernel | ForgetKernel | PrepareImage | ReadLog | OpenStream
Reply: TypeAlias = Done | KernelGone | ImageStatus | LogData


class Hello(Struct, frozen=True, kw_only=True, tag="hello", omit_defaults=True):
    """The first frame of a link, from the agent: who it is and what it has.

    `incarnation` is the one that this process was welcomed as before; 0 says that it
    has just started, and wants a new one. `kernels` are those that it answers for: what
    it found running, and what ended while no agent was there. `identity` tells it from
    any other machine or folder that goes by the same name.
    """

    agent_id: Word
    software: Word
    identity: Word = ""
    incarnation: Count = 0
    architecture: Word = ""
    scaling_group: Word = ""
    slots: dict[Word, Count] = {}
    devices: tuple[DeviceEntry, ...] = ()
    labels: dict[Word, Word] = {}
    kernels_max: Count | None = None
    kernels: tuple[KernelEntry, ...] = ()


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome", omit_defaults=True):
    """The manager's answer to a Hello that it takes."""

    incarnation: Annotated[int, Meta(ge=1)]
    heartbeat_s: Annotated[float, Meta(ge=0.01, le=3600)]
    draining: bool = False


class HelloRefused(Struct, frozen=True, kw_only=True, tag="refusal", omit_defaults=True):
    """The manager's answer to a Hello that it does not take; it hangs up after that.

    `final` says that dialling again is of no use before somebody has mended something.
    """

    code: Word
    message: Prose
    final: bool = False


class Heartbeat(Struct, frozen=True, kw_only=True, tag="heartbeat", omit_defaults=True):
    """Everything that the agent holds, not what changed."""

    incarnation: Count
    sequence: Count
    kernels: tuple[KernelEntry, ...] = ()
    images: tuple[ImageStatus, ...] = ()
    load: dict[Word, Count] = {}


class Request(Struct, frozen=True, kw_only=True, tag="request"):
    """Something asked of the agent; `number` rises along a link.

    `incarnation` is the one it is meant for, 0 where it does not matter. The answer is
    of no use after `allowed_ms`.
    """

    number: Count
    incarnation: Count
    allowed_ms: Count
    ask: Ask


class Response(Struct, frozen=True, tag="answer"):
    """What the agent says to a request."""

    number: Count
    reply: Reply


class RequestFailed(Struct, frozen=True, tag="problem"):
    """Why a request will not be done."""

    number: Count
    code: Word
    message: Prose


class ReportNow(Struct, frozen=True, tag="report-now"):
    """A heartbeat is wanted before its time."""

    reason: Word = ""


Frame: TypeAlias = Hello | Welcome | HelloRefused | Heartbeat | Request | Response | RequestFailed | ReportNow
