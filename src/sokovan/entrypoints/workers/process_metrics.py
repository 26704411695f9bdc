"""The metrics of all processes of a server, as one answer to a scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from sokovan.adapters.agentlink.relay.remote_agents import ManagerProcessAway

Scrape = Callable[[], Awaitable[bytes]]


async def metrics_of(processes: Mapping[str, Scrape]) -> bytes:
    """The metrics of these processes, each sample with the label `process`.

    A process that does not answer now is left out.
    """
    names = list(processes)
    found = await asyncio.gather(*(_found(processes[name]) for name in names))
    return joined({name: text for name, text in zip(names, found, strict=True) if text})


async def _found(scrape: Scrape) -> bytes:
    try:
        return await scrape()
    except ManagerProcessAway:
        return b""


def joined(texts: Mapping[str, bytes]) -> bytes:
    """Several answers in Prometheus' format as one; each metric is described once."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for process, text in texts.items():
        metric = ""
        for line in text.decode().splitlines():
            if line.startswith("# "):
                metric = line.split(" ", 3)[2]
                samples.setdefault(metric, [])
                if line not in heads.setdefault(metric, []):
                    heads[metric].append(line)
            elif line:
                samples.setdefault(metric, []).append(_labelled(line, process))
    lines = [line for metric, rows in samples.items() for line in (*heads.get(metric, ()), *rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def _labelled(sample: str, process: str) -> str:
    """A sample with the label of its process.

    >>> _labelled('requests_total{code="1"} 3.0', "api-1")
    'requests_total{process="api-1",code="1"} 3.0'
    >>> _labelled("up 1.0", "api-1")
    'up{process="api-1"} 1.0'
    """
    label = f'process="{process}"'
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f"{name}{{{label},{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label}}} {value}"
