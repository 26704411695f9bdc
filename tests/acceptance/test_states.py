"""A stop and a deadline in every state of a session's life, also in those that last for a moment only.

So for deployments and their routes.

An agent that is paused answers nothing, so that whatever waits for it waits on. What does not
wait for an agent is held back in the server; see fast_timings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from sokovan.wire.serving.proxy_reports import ProxyReport
from tests.acceptance.agent_process import AgentProcess
from tests.acceptance.claims import shown_by, shows
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings
from tests.acceptance.package_index import PackageIndex, package_index
from tests.acceptance.test_serving_states import detached, removed, route_is
from tests.kernels import relatives

ONCE = {"attempts": 1}
TWICE = {"attempts": 2, "backoff": 0}

SLEEPS = "import time; time.sleep(600)"
# Long enough for most steps that are not held back; a test that needs time on a busy machine is `unhurried`.
DEADLINES = {"scheduled": 2, "preparing": 3, "pulling": 4, "prepared": 2, "creating": 3, "terminating": 1}
SERVING_S = 3
# A replica that does not serve within any of them.
NEVER = ("--start-seconds", "600")
BEFORE_IT_BEGINS = shown_by(
    "test_a_deployment_is_scaled_and_deleted_before_it_begins",
    deployment="pending:scale_requested pending:scaled pending:delete_requested",
)
NOT_READY = shown_by(
    "test_a_deployment_that_is_not_ready_in_time_is_retried_and_says_why",
    deployment="pending:retried provisioning:retried",
)
FORCED = shown_by("test_a_deployment_whose_replicas_do_not_end_is_forced", deployment="destroying:forced")
NOT_CONFIGURED = shown_by("test_a_route_is_deleted_before_it_is_configured", route="pending:delete_requested")
NO_ENGINE = shown_by(
    "test_a_route_whose_engine_is_gone_is_in_error_until_it_is_back", route="pending:configuration_refused"
)
TOO_LATE = shown_by("test_a_route_without_an_endpoint_in_time_is_in_error", route="provisioning:health_failed")
UNHEARD = shown_by("test_a_proxy_that_does_not_acknowledge_delays_an_end_and_no_more", route="terminating:forced")


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with package_index() as index:
        yield index


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("states")
    holds = str(folder / "holds")
    timings = FastTimings(deadlines=DEADLINES, heartbeat_s=0.5, holds=holds, serving_s=SERVING_S, retried_s=SERVING_S)
    server = Embedded(folder, timings=timings)
    agent = AgentProcess(server)
    with ended_well(server, agent):
        server.start("--no-agent")
        agent.start()
        yield agent


@pytest.fixture
def server(agent: AgentProcess) -> Embedded:
    return agent.server


@pytest.fixture
def knows_the_image(server: Embedded) -> None:
    """The server has heard that the machine itself is ready as an image."""
    server.settles(server.python("pass"))


@pytest.fixture
def unhurried(server: Embedded) -> Iterator[None]:
    """No deadline is enforced, however long a busy machine takes."""
    with server.held("deadlines"):
        yield


@contextmanager
def paused(agent: AgentProcess) -> Iterator[None]:
    """The agent does nothing while the context is open."""
    agent.pause()
    try:
        yield
    finally:
        agent.resume()


def image_of_its_own(agent: AgentProcess, name: str, requirements: str = "") -> str:
    """An image that was not requested yet."""
    Path(agent.kernels, "images", f"{name}.txt").write_text(requirements, encoding="utf-8")
    return f"venv:{name}"


@pytest.mark.usefixtures("unhurried")
@shows(session="scheduled:stop_requested", kernel="scheduled:stop_requested")
def test_a_session_is_stopped_while_it_is_scheduled(server: Embedded) -> None:
    with server.held("prepare"):
        session = server.python(SLEEPS)
        server.reaches(session, "scheduled")
        server.end(session)
        ended = server.settles(session)
    assert (ended["reason"], ended["exit_code"]) == ("user-requested", None)


@pytest.mark.usefixtures("unhurried")
@shows(
    session="scheduled:preparation_started preparing:stop_requested",
    kernel="scheduled:preparation_started preparing:stop_requested",
)
def test_a_session_is_stopped_while_its_image_is_asked_for(server: Embedded, agent: AgentProcess) -> None:
    image = image_of_its_own(agent, "asked")
    with paused(agent):
        session = server.submit("python", "-c", SLEEPS, image=image)["id"]
        server.reaches(session, "preparing")
        server.end(session)
        ended = server.settles(session)
    assert ended["reason"] == "user-requested"


@pytest.mark.usefixtures("knows_the_image", "unhurried")
@shows(session="prepared:stop_requested", kernel="prepared:stop_requested")
def test_a_session_is_stopped_while_it_is_prepared(server: Embedded) -> None:
    with server.held("create"):
        session = server.python(SLEEPS)
        server.reaches(session, "prepared")
        server.end(session)
        server.settles(session)


@pytest.mark.usefixtures("knows_the_image", "unhurried")
@shows(session="creating:stop_requested", kernel="creating:stop_requested")
def test_a_session_that_is_stopped_while_it_is_created_holds_its_slots_until_its_agent_has_said_so(
    server: Embedded, agent: AgentProcess
) -> None:
    with paused(agent):
        session = server.python(SLEEPS)
        server.reaches(session, "creating")
        assert server.end(session)["status"] == "terminating"
        assert agent.used() != {}
    ended = server.settles(session)
    assert ended["reason"] == "user-requested"
    assert agent.used() == {}


@shows(kernel="terminating:overdue", session="terminating:forced")
def test_an_end_that_does_not_come_is_reported_and_frees_nothing(server: Embedded, agent: AgentProcess) -> None:
    session = server.python(SLEEPS, stop_grace=0)
    server.reaches(session, "running")
    with paused(agent):
        server.end(session)
        until(lambda: "overdue" in {line["trigger"] for line in server.history(session)}, what="it is overdue")
        forced = server.end(session, forced=True)
        assert forced["status"] == "terminated"
        assert [kernel["status"] for kernel in forced["kernels"]] == ["terminating"]
        assert agent.used() != {}
    ended = server.settles(session)
    assert ended["kernels"][0]["exit_code"] in {137, 143}
    assert agent.used() == {}


@shows(
    session="scheduled:expired scheduled:retry_requested terminating:requeued",
    kernel="scheduled:expired scheduled:retry_requested terminating:requeued",
)
def test_a_session_that_stays_scheduled_for_too_long_ends(server: Embedded) -> None:
    with server.held("prepare"):
        assert server.settles(server.python(SLEEPS, retry=TWICE))["reason"] == "scheduled-timeout"


@shows(session="preparing:expired preparing:retry_requested", kernel="preparing:expired preparing:retry_requested")
def test_a_session_whose_agent_does_not_answer_for_an_image_ends(server: Embedded, agent: AgentProcess) -> None:
    image = image_of_its_own(agent, "unanswered")
    with paused(agent):
        ended = server.settles(server.submit("python", "-c", SLEEPS, image=image, retry=TWICE)["id"])
    assert (ended["reason"], ended["result"]) == ("preparing-timeout", "failure")


@pytest.mark.usefixtures("knows_the_image")
@shows(session="prepared:expired prepared:retry_requested", kernel="prepared:expired prepared:retry_requested")
def test_a_session_that_stays_prepared_for_too_long_ends(server: Embedded) -> None:
    with server.held("create"):
        assert server.settles(server.python(SLEEPS, retry=TWICE))["reason"] == "prepared-timeout"


@pytest.mark.usefixtures("knows_the_image")
@shows(session="creating:expired", kernel="creating:expired")
def test_a_session_whose_agent_does_not_create_its_kernel_ends(server: Embedded, agent: AgentProcess) -> None:
    with paused(agent):
        session = server.python(SLEEPS, retry=ONCE)
        server.reaches(session, "terminating")
        assert agent.used() != {}
    assert server.settles(session)["reason"] == "creating-timeout"


@pytest.mark.usefixtures("knows_the_image")
@shows(session="creating:retry_requested", kernel="creating:retry_requested")
def test_a_session_whose_agent_creates_its_kernel_too_late_is_retried(server: Embedded, agent: AgentProcess) -> None:
    with ExitStack() as second:
        with paused(agent):
            session = server.python("print('up')", retry=TWICE)
            server.reaches(session, "terminating")
            second.enter_context(server.held("deadlines"))
        ended = server.settles(session)
    assert (ended["result"], ended["attempt"], len(ended["failed_starts"])) == ("success", 2, 1)


@pytest.mark.usefixtures("knows_the_image")
@shows(session="terminating:stop_requested")
def test_a_session_that_is_stopped_before_its_retry_ends(server: Embedded, agent: AgentProcess) -> None:
    with paused(agent):
        session = server.python(SLEEPS, retry=TWICE)
        server.reaches(session, "terminating")
        server.end(session)
    ended = server.settles(session)
    assert (ended["reason"], ended["attempt"]) == ("user-requested", 1)


@pytest.mark.usefixtures("unhurried")
@shows(
    session="preparing:images_ready creating:kernel_exited",
    kernel="preparing:image_ready creating:exited",
)
def test_a_kernel_that_is_over_before_anybody_saw_it_run_counts_all_the_same(
    server: Embedded, agent: AgentProcess
) -> None:
    # A new process of an agent: nothing is known of its images.
    agent.stop()
    agent.start()
    with server.held("watch"):
        with paused(agent):
            session = server.python("print('quick')")
            server.reaches(session, "preparing")
        server.says(session, "quick")
        until(lambda: not relatives(agent.kernels), what="the kernel is over")
        # The agent may have reported it as running last; the first report of a new process says that it is over.
        agent.stop()
        until(lambda: not agent.is_connected(), what="the agent is gone")
        agent.start()
        assert server.session(session)["status"] == "creating"
    ended = server.settles(session)
    assert (ended["exit_code"], ended["result"]) == (0, "success")


@shows(
    session="preparing:pull_started pulling:stop_requested pulling:expired pulling:failed pulling:retry_requested",
    kernel="preparing:pull_started pulling:stop_requested pulling:expired pulling:failed prepared:stop_requested"
    " pulling:retry_requested",
)
def test_while_an_image_is_installed_a_session_can_be_stopped_expire_or_fail(
    server: Embedded, agent: AgentProcess, index: PackageIndex
) -> None:
    image = image_of_its_own(agent, "endless", index.requirements)
    # The one kernel is ready at once, and waits for the image of the other.
    groups = [{"name": "ready", "image": "host"}, {"name": "late", "image": image}]
    with server.held("deadlines"):
        stopped = server.submit("python", "-c", SLEEPS, groups=groups)["id"]
        server.reaches(stopped, "pulling")
        until(
            lambda: [kernel["status"] for kernel in server.session(stopped)["kernels"]] == ["prepared", "pulling"],
            what="one kernel is ready, one pulls",
        )
        server.end(stopped)
        assert server.settles(stopped)["reason"] == "user-requested"
    assert index.asked.wait(120)
    expired = server.submit("python", "-c", SLEEPS, image=image, retry=TWICE)["id"]
    assert server.settles(expired)["reason"] == "pulling-timeout"
    with server.held("deadlines"):
        failed = server.submit("python", "-c", SLEEPS, image=image, retry=ONCE)["id"]
        server.reaches(failed, "pulling")
        index.answers.set()
        ended = server.settles(failed)
    assert (ended["reason"], ended["result"]) == ("image-unavailable", "failure")
    assert "no-such-package-at-all" in ended["reason_detail"]


@pytest.mark.usefixtures("unhurried")
@shows(session="preparing:failed", kernel="preparing:failed")
def test_an_unknown_image_ends_its_session_and_says_so(server: Embedded, agent: AgentProcess) -> None:
    with paused(agent):
        session = server.submit("python", "-c", "pass", image="venv:unknown", retry=ONCE)["id"]
        server.reaches(session, "preparing")
    ended = server.settles(session)
    assert (ended["reason"], ended["result"]) == ("image-unavailable", "failure")
    assert "venv:unknown" in ended["reason_detail"]


@pytest.mark.usefixtures("unhurried")
@shows(
    session="running:preempted terminating:spared",
    kernel="running:evicted terminating:spared terminating:noticed",
)
def test_an_eviction_is_withdrawn_if_its_taker_is_gone_before_the_notice(server: Embedded) -> None:
    for words in (
        ("scaling-group", "set", "default", "--option", 'actions=["enqueue","allocate","preempt"]'),
        ("queue", "set", "default", "--min-runtime", "0s"),
    ):
        done = server.cli(*words)
        assert done.returncode == 0, done.stderr
    slots = server.api("GET", "/agents").json()["items"][0]["slots"]
    whole = {"cpu": slots["cpu"] // 1000, "mem": "64MiB"}
    low = server.python(SLEEPS, type="batch", resources=whole, stop_grace="60s")
    server.reaches(low, "running")
    with server.held("terminate"):
        gone = server.python(SLEEPS, type="batch", priority=5, resources=whole)
        server.reaches(low, "terminating")
        server.end(gone)
        # A cycle that has decided about a later session knows of the end of this one.
        later = server.python("pass", type="batch", resources=whole)
        until(lambda: server.session(later)["reason"], what="a cycle has seen both")
        server.end(later)
    spared = server.reaches(low, "running")
    assert (spared["attempt"], spared["evictions"]) == (1, [])
    history = server.cli("session", "history", low).stdout
    assert "does not wait for its room any more; it runs on, and had no notice" in history, history
    taker = server.python("pass", type="batch", priority=5, resources=whole)
    assert server.settles(taker)["result"] == "success"
    [receipt] = server.session(low)["evictions"]
    assert (receipt["for_session"], receipt["number"]) == (taker, 1)
    server.end(low, forced=True)
    server.settles(low)
    done = server.cli("scaling-group", "set", "default", "--option", "actions=null")
    assert done.returncode == 0, done.stderr


def test_a_deployment_is_scaled_and_deleted_before_it_begins(server: Embedded) -> None:
    with server.held("initialising"):
        identity = detached(server, "early", *NEVER)
        assert server.cli("deployment", "scale", "early", "2").returncode == 0
        until(lambda: server.cli_json("deployment", "show", "early")["replicas_desired"] == 2, what="it is scaled")
        removed(server, "early")
    BEFORE_IT_BEGINS(server, identity)


def test_a_deployment_that_is_not_ready_in_time_is_retried_and_says_why(server: Embedded) -> None:
    def retried(status: str) -> bool:
        lines = server.cli_json("deployment", "events", "slow")
        return any((line["before"], line["trigger"]) == (status, "retried") for line in lines)

    with server.held("initialising"):
        identity = detached(server, "slow", *NEVER)
        until(lambda: retried("pending"), what="it is retried before it begins")
    until(lambda: retried("provisioning"), what="it is retried while its replica is not ready")
    assert "0 of 1 replicas serve; 1 is on its way" in server.cli("deployment", "events", "slow").stdout
    removed(server, "slow")
    NOT_READY(server, identity)


def test_a_deployment_whose_replicas_do_not_end_is_forced(server: Embedded) -> None:
    identity = detached(server, "stuck", *NEVER)
    until(lambda: server.cli_json("deployment", "show", "stuck")["replicas"][0]["port"], what="its engine runs")
    with server.held("terminate"):
        removed(server, "stuck")
    FORCED(server, identity)


def test_a_route_is_deleted_before_it_is_configured(server: Embedded) -> None:
    with server.held("provisioning"):
        identity = detached(server, "unrouted", *NEVER)
        route_is(server, "unrouted", "pending")
        removed(server, "unrouted")
    NOT_CONFIGURED(server, identity)


def test_a_route_whose_engine_is_gone_is_in_error_until_it_is_back(server: Embedded) -> None:
    with ExitStack() as gone:
        with server.held("provisioning"):
            identity = detached(server, "refused", "--tokens", "3")
            route_is(server, "refused", "pending")
            gone.enter_context(server.held("engines"))
        route_is(server, "refused", "error")
    route_is(server, "refused", "running")
    removed(server, "refused")
    NO_ENGINE(server, identity)


def test_a_route_without_an_endpoint_in_time_is_in_error(server: Embedded) -> None:
    identity = detached(server, "late", *NEVER)
    route_is(server, "late", "error")
    removed(server, "late")
    TOO_LATE(server, identity)


def test_a_proxy_that_does_not_acknowledge_delays_an_end_and_no_more(server: Embedded) -> None:
    identity = detached(server, "unheard", *NEVER)
    route_is(server, "unheard", "error")
    key = (server.data / "proxy-token").read_text(encoding="ascii").strip()
    stale = msgspec.json.encode(ProxyReport(proxy_id="stale", incarnation=1, epoch="", version=0))

    def report() -> None:
        reported = server.api("POST", "/serving/reports", content=stale, headers={"Authorization": f"Bearer {key}"})
        assert reported.status_code == 200, reported.text

    def gone() -> bool:
        report()
        # A slow machine may force the end of the deployment before that of its route.
        moves = server.cli_json("deployment", "events", identity)
        return any(move["subject"].split()[0] == "route" and move["after"] == "terminated" for move in moves)

    report()  # it is known as a proxy before the route ends
    assert server.cli("deployment", "rm", "unheard", "--yes").returncode == 0

    until(gone, what="its route is gone")
    until(lambda: "unheard" not in server.cli("deployment", "ls").stdout, what="it is gone")
    UNHEARD(server, identity)
