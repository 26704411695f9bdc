"""Everything on one machine with one command: manager, agent, API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sokovan import __version__
from sokovan.adapters.local.chance import number, secret_text
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.ids import SortableIds
from sokovan.adapters.prometheus import PrometheusTelemetry
from sokovan.adapters.sql.database import Database, DatabaseSettings
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.adapters.sql.store import SqlStore
from sokovan.api.app import make_app
from sokovan.api.parts import ApiParts
from sokovan.api.settings import ApiSettings
from sokovan.domain.errors import InvalidInput
from sokovan.entrypoints.embedded.control_plane import ControlPlane, ControlPlaneWish
from sokovan.entrypoints.embedded.data_folder import AlreadyUp, DataFolder, data_home
from sokovan.entrypoints.embedded.web import bound_socket, served
from sokovan.orchestrator.sessions.controller import SchedulingController
from sokovan.orchestrator.sessions.preparation.names import name_of

HOST = "127.0.0.1"
PORT = 7646
# Threads take turns this often: a scheduling cycle must not make the API wait for long.
TURN_S = 0.001
