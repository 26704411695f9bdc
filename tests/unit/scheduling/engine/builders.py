"""Small clusters and sessions for the tests of the engine, written as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from typing_extensions import Unpack

from sokovan.domain.agent import AgentInfo
from sokovan.domain.ids import AccessKey, AgentId, KernelId, QueueName, SessionId
from sokovan.domain.policy import ResourcePolicy, Scope
from sokovan.domain.queue import Queue
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slot_forms import parse_slots
from sokovan.domain.slots import SlotLimits
from sokovan.domain.tenancy import Owner
from sokovan.domain.topology import HyperNode, HyperNodeTree
from sokovan.scheduling.engine.choice import KeyedChoice
from sokovan.scheduling.engine.jobs import Job, Outlook
from sokovan.scheduling.engine.queues import CAPACITY, QueueBook
from sokovan.scheduling.engine.shapes import Shape, ShapeTable
from sokovan.scheduling.engine.turn import Floor
from sokovan.scheduling.engine.workspace import Workspace
from sokovan.scheduling.extensions import Extensions, SchedulingPlugin
from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.registry import BUILT_IN
from sokovan.scheduling.selectors.concentrated import ConcentratedSelector
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload, SystemSnapshot
from sokovan.scheduling.trace import Verdict
