"""Real servers for tests, installed from wheels; Docker Engine from a package.

Each listens on a free loopback port, keeps its data in a temporary folder, and ends
with the process that started it.
"""

from sokovan.testing.servers.docker import DockerServer
from sokovan.testing.servers.etcd import EtcdServer
from sokovan.testing.servers.postgres import PostgresServer, StandbyServer
from sokovan.testing.servers.process import ServerProcess, ServerProcessFailed, server_or_environment
from sokovan.testing.servers.valkey import ValkeyServer

__all__ = [
    "DockerServer",
    "EtcdServer",
    "PostgresServer",
    "ServerProcess",
    "ServerProcessFailed",
    "StandbyServer",
    "ValkeyServer",
    "server_or_environment",
]
