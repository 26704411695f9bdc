"""The link to the manager: fetches the route table, sends reports.

The manager may be away for any time: the proxy serves on from the table that it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from sokovan.ports.environment import Clock
from sokovan.proxy.accounts.token_leases import LeaseTerm
from sokovan.proxy.accounts.usage_ledger import UsageLedger
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.control.manager_calls import ManagerAway, ManagerCalls
from sokovan.proxy.routing.table_state import StaleDelta
from sokovan.wire.serving.key_questions import KEYS_PATH, KeyQuestion
from sokovan.wire.serving.proxy_reports import REPORTS_PATH, ProxyReport, ReportAnswer
from sokovan.wire.serving.route_table import TABLE_PATH, KeyEntry, TableUpdate
from sokovan.wire.serving.serving_codec import MalformedMessage, decode_answer, decode_key, decode_update, encode

REPORT_EVERY_S = 1.0
# Two reports are at least this far apart, also if requests begin to wait.
REPORT_GAP_S = 0.1
PAUSE_FIRST_S, PAUSE_MAX_S = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class ProxyIdentity:
    """The id of a proxy's folder, and the number of its start."""

    proxy_id: str
    incarnation: int


class ControlLink:
    """Keeps table and reports going; `changed` is called after each new table."""

    def __init__(
        self,
        context: ProxyContext,
        managers: ManagerCalls,
        identity: ProxyIdentity,
        *,
        clock: Clock,
        apply: Callable[[TableUpdate], None],
        save_usage: Callable[[], None],
    ) -> None:
        self._context, self._managers, self._identity = context, managers, identity
        self._clock, self._apply, self._save_usage = clock, apply, save_usage
        self._whole = False
        self._number = 0

    async def follow_table(self) -> None:
        """Fetch table and deltas until cancelled."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                changed = await self._fetch()
                pause_s = PAUSE_FIRST_S
                self._note(away="")
                if not changed:
                    # A manager that answers at once without news must not be asked in a loop.
                    await self._clock.sleep(PAUSE_FIRST_S)
            except (ManagerAway, MalformedMessage) as problem:
                self._note(away=str(problem))
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _fetch(self) -> bool:
        """Ask for news once; false if there are none. Raises ManagerAway, MalformedMessage."""
        table = self._context.table
        before = (table.epoch, table.version)
        known = table.epoch and not self._whole
        wait_s = self._managers.wait_s if known else 0
        query = {"epoch": table.epoch, "version": str(table.version)} if known else {"version": "0"}
        content = await self._managers.call("GET", TABLE_PATH, wait_s=wait_s, params={**query, "wait_s": str(wait_s)})
        update = decode_update(content)
        try:
            self._apply(update)
            self._whole = False
        except StaleDelta:
            # A delta of another table, as after a restore of the manager's database: the whole one is next.
            if self._whole:
                raise ManagerAway("the manager sent a delta instead of a whole table") from None
            self._whole = True
            return True
        self._context.manager_seen_ms = self._context.now_ms()
        if (table.epoch, table.version) == before:
            return False
        # Acknowledged at once: a drain waits for it.
        self._context.demanded.set()
        return True

    async def send_reports(self) -> None:
        """Report every second, and when requests begin to wait, until cancelled."""
        demanded = self._context.demanded
        while True:
            await self._clock.sleep(REPORT_GAP_S)
            try:
                async with asyncio.timeout(REPORT_EVERY_S - REPORT_GAP_S):
                    await demanded.wait()
            except TimeoutError:
                pass
            demanded.clear()
            try:
                await self.report()
            except (ManagerAway, MalformedMessage) as problem:
                self._note(away=str(problem))

    async def report(self) -> None:
        """Send one report and take over its answer. Raises ManagerAway."""
        context = self._context
        if context.ledger.close():
            # Numbered usage is on disk before it is sent: a number never has two meanings.
            await asyncio.to_thread(self._save_usage)
        content = await self._managers.call("POST", REPORTS_PATH, content=encode(self._report()))
        answer: ReportAnswer = decode_answer(content)
        context.manager_seen_ms = context.now_ms()
        stored = context.ledger.stored(answer.usage_sequence)
        self._lease(answer)
        if stored:
            await asyncio.to_thread(self._save_usage)

    async def hand_in(self, identity: ProxyIdentity, ledger: UsageLedger) -> bool:
        """Send the usage of a process that has ended; false if none was stored.

        Raises ManagerAway, MalformedMessage.
        """
        table = self._context.table
        report = ProxyReport(
            proxy_id=identity.proxy_id,
            incarnation=identity.incarnation,
            epoch=table.epoch,
            version=table.version,
            usage=ledger.unsent(),
        )
        answer = decode_answer(await self._managers.call("POST", REPORTS_PATH, content=encode(report)))
        return ledger.stored(answer.usage_sequence)

    def _lease(self, answer: ReportAnswer) -> None:
        """Take over leases of budgets, and admit the requests that waited for them."""
        context = self._context
        end_s = answer.month_end * 60
        term = LeaseTerm(context.now_ms() + 1000 * end_s - context.wall_ms(), end_s)
        unstored = context.ledger.unstored(answer.month_start) if answer.budgets else {}
        context.accounts.lease(answer.budgets, term, unstored)
        for waiting in list(context.unleased):
            waiting.recheck()

    async def key(self, secret: bytes) -> KeyEntry | None:
        """The entry of a key that is not in the table.

        Raises ManagerAway, MalformedMessage.
        """
        content = await self._managers.call("POST", KEYS_PATH, content=encode(KeyQuestion(secret.decode())))
        return decode_key(content).entry

    def _report(self) -> ProxyReport:
        context = self._context
        table, now_ms = context.table, context.now_ms()
        self._number += 1
        return ProxyReport(
            proxy_id=self._identity.proxy_id,
            incarnation=self._identity.incarnation,
            number=self._number,
            epoch=table.epoch,
            version=table.version,
            url=context.url,
            endpoints=tuple(
                endpoint.report(now_ms) for route in table.routes.values() for endpoint in route.endpoints.values()
            ),
            routes=tuple(route.report() for route in table.routes.values()),
            usage=context.ledger.unsent(),
            budgets=context.accounts.budgets(now_ms),
        )

    def _note(self, *, away: str) -> None:
        if bool(away) != self._context.manager_away:
            self._context.manager_away = bool(away)
            self._context.log(f"the manager is away: {away}" if away else "the manager is reached")
