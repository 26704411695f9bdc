"""Many pretended agents in one task: what is due next happens next.

Nothing is asked of a clock but when to wake: a thousand agents with ten thousand
kernels cost what their changes cost. An agent speaks when something of it has changed,
and now and then so that it does not seem dead.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from sokovan.adapters.pretend.conduct import WORK_S, conduct_of
from sokovan.adapters.pretend.entering import EnteredLater
from sokovan.adapters.pretend.machine import KILLED, TERMINATED, Key, Phase, PretendMachine
from sokovan.adapters.pretend.shape import FleetShape
from sokovan.domain.agent import AgentInfo
from sokovan.domain.ids import AgentId, KernelId
from sokovan.domain.record import Device
from sokovan.domain.topology import HyperNode
from sokovan.ports.agent_gateway import AgentUnreachable, Gone, ImageReport, ImageState
from sokovan.ports.agents import AgentState
from sokovan.ports.environment import Clock
from sokovan.ports.runtime import Execution, Launch, LogPart
