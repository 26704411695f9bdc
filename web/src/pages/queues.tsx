// Queues: what each deserves, uses, borrows and waits for.
import { all, call } from "../api.ts";
import { amount, plural, shellWords } from "../format.ts";
import { clusterTick } from "../live/store.ts";
import { CopyCommand, Empty, ProblemBox, Skeleton } from "../parts/basics.tsx";
import { useResource } from "../parts/resource.ts";
import { QueueLines } from "../parts/usage.tsx";
import { query, setQuery } from "../router.ts";
import { me } from "../session.ts";
import { type Loan, type QueueBar, barsOf, loansOf, scaleOf } from "../shares.ts";
import { unitOf } from "../timeline.ts";
import type { QueueBody, QueueSharesView, QueueShareView, ScalingGroupBody } from "../wire.ts";

const LOANS_MAX = 20;

interface Shares {
  queues: QueueBody[];
  groups: string[];
  shares: QueueShareView[];
}

export function QueuesPage() {
  const group = query.value.get("group") ?? "default";
  const found = useResource<Shares>(
    `queues ${group}`,
    async (signal) => {
      const [queues, groups, view] = await Promise.all([
        all<QueueBody>("queues", signal),
        all<ScalingGroupBody>("scaling-groups", signal),
        call<QueueSharesView>(`queue-shares?scaling_group=${encodeURIComponent(group)}`, { signal }),
      ]);
      return { queues, groups: groups.map((one) => one.name), shares: view.items };
    },
    clusterTick.value,
  );
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={8} />;
  const { queues, groups, shares } = found.value;
  const slots = [...new Set(shares.map((one) => one.slot))].sort();
  const preferred = slots.find((one) => one.endsWith(".device")) ?? slots[0] ?? "cpu";
  const slot = query.value.get("slot") ?? preferred;
  const bars = barsOf(queues, shares, slot);
  const loans = loansOf(bars);
  return (
    <div class="queues">
      <div class="bar">
        <h1>Queues</h1>
        <label>
          scaling group{" "}
          <select value={group} onChange={(event) => setQuery({ group: event.currentTarget.value })}>
            {groups.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <div class="chips" role="group" aria-label="slot">
          {slots.map((one) => <button key={one} type="button" aria-pressed={one === slot} onClick={() => setQuery({ slot: one })}>{one}</button>)}
        </div>
        <span class="spring" />
        <CopyCommand command={shellWords(["sokovan", "queue", "shares", ...(group === "default" ? [] : ["--scaling-group", group])])} />
      </div>
      {loans.length ? <Loans loans={loans} slot={slot} /> : null}
      {bars.length ? <Bars bars={bars} slot={slot} /> : <Empty title="There are no queues." command="sokovan queue set research --weight 2" />}
      <h2>Held over 24 hours</h2>
      <section class="panel" aria-label="held over 24 hours">
        <p class="muted">Each line is what a queue held of {slot}; the figure beside it counts the hours of {unitOf(slot)}.</p>
        <QueueLines group={group} slot={slot} />
        <CopyCommand command={shellWords(["sokovan", "usage", "--last", "24h", "--by", "queue", "--slot", slot])} />
      </section>
    </div>
  );
}

/** Which queue uses what another one deserves. */
function Loans({ loans, slot }: { loans: readonly Loan[]; slot: string }) {
  return (
    <div class="notice">
      <ul class="plain" aria-label="who borrows from whom">
        {loans.slice(0, LOANS_MAX).map((one) => (
          <li key={`${one.to} ${one.from}`}>
            <strong>{one.to}</strong> borrows up to {amount(slot, one.most)} {slot} from <strong>{one.from}</strong>
            {one.waiting ? `, which waits for ${amount(slot, one.waiting)}` : ", which does not ask for it"}
            {one.reclaimable ? "" : "; it is not taken back by evictions"}
          </li>
        ))}
      </ul>
      {loans.length > LOANS_MAX ? <p class="muted">{plural(loans.length - LOANS_MAX, "more pair")}.</p> : null}
    </div>
  );
}

function Bars({ bars, slot }: { bars: readonly QueueBar[]; slot: string }) {
  const scale = scaleOf(bars);
  const isAdmin = me.value?.role === "admin";
  const percent = (value: number) => `${Math.min(100, (value / scale) * 100)}%`;
  const shown = (value: number | null) => (value === null ? "–" : amount(slot, value));
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="shares of queues">
      <p class="legend">
        <span><i class="cell used" /> in use</span>
        <span><i class="cell over" /> borrowed</span>
        <span><i class="cell wait" /> waiting</span>
        <span><i class="cell tick" /> deserved</span>
      </p>
      <table>
        <thead>
          <tr><th>Queue</th><th class="right">Weight</th><th class="wide">Share of {slot}</th><th class="right">In use</th><th class="right">Deserved</th><th class="right">Guarantee</th><th class="right">Limit</th><th class="right">Borrowed</th><th class="right">Waiting</th></tr>
        </thead>
        <tbody>
          {bars.map((bar) => {
            const { share } = bar;
            return (
              <tr key={bar.queue} data-queue={bar.queue}>
                <th scope="row" class={`depth-${Math.min(4, bar.depth)}`}>{isAdmin ? <a href={`/ui/admin?tab=queues&edit=${encodeURIComponent(bar.queue)}`} title={`change ${bar.queue}`}>{bar.queue}</a> : bar.queue}{bar.open ? "" : " (closed)"}</th>
                <td class="right">{bar.weight}</td>
                <td class="wide">
                  {share ? (
                    <span class="share" aria-hidden="true">
                      <span class="used" style={{ width: percent(share.allocated - share.borrowed) }} />
                      <span class="over" style={{ width: percent(share.borrowed) }} />
                      <span class="wait" style={{ width: percent(share.waiting) }} />
                      {share.deserved === null ? null : <span class="tick" style={{ left: percent(share.deserved) }} />}
                    </span>
                  ) : null}
                </td>
                <td class="right">{share ? shown(share.allocated) : "–"}</td>
                <td class="right">{share ? shown(share.deserved) : "–"}</td>
                <td class="right">{share ? shown(share.guarantee) : "–"}</td>
                <td class="right">{share ? shown(share.limit) : "–"}</td>
                <td class="right">{share ? shown(share.borrowed) : "–"}</td>
                <td class="right">{share ? shown(share.waiting) : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
