// The cluster in figures, why sessions wait, what needs attention, and what just happened.
import { all, call } from "../api.ts";
import { amount, devices, plural, printable } from "../format.ts";
import { clusterTick, loaded, recent } from "../live/store.ts";
import { Age, CopyCommand, Empty, Figure, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { useCounts } from "../parts/counts.ts";
import { useResource } from "../parts/resource.ts";
import { SlotLine, useUsage } from "../parts/usage.tsx";
import { ENDED } from "../states.ts";
import type { AgentView, HealthView, WaitingView } from "../wire.ts";

interface Figures {
  agents: AgentView[];
  waiting: WaitingView;
  health: HealthView;
}

export function OverviewPage() {
  const found = useResource<Figures>(
    "overview",
    async (signal) => {
      const [agents, waiting, health] = await Promise.all([
        all<AgentView>("agents", signal),
        call<WaitingView>("sessions/waiting", { signal }),
        call<HealthView>("health", { signal }),
      ]);
      return { agents, waiting, health };
    },
    clusterTick.value,
  );
  const usage = useUsage("by=all");
  const counts = useCounts();
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value || !loaded.value) return <Skeleton lines={10} />;
  const { agents, waiting, health } = found.value;
  const totals = sum(agents.map((one) => one.slots));
  const used = sum(agents.map((one) => one.used));
  const live = [...counts].reduce((sum, [status, count]) => (ENDED.has(status) ? sum : sum + count), 0);
  const attention = agents.filter((one) => Object.keys(one.device_faults).length || one.failing_since || one.status === "lost" || one.status === "suspect" || !one.connected);
  const ill = Object.entries(health.parts).filter(([name, state]) => name !== "agents" && state !== "ok");
  return (
    <div class="overview">
      <div class="bar">
        <h1>Overview</h1>
        <span class="spring" />
        <CopyCommand command="sokovan status" />
      </div>
      <dl class="figures">
        {Object.keys(totals).sort(devicesFirst).map((slot) => (
          <Figure key={slot} label={slot} value={`${amount(slot, used[slot] ?? 0)} / ${amount(slot, totals[slot] ?? 0)}`} note={`${Math.round(((used[slot] ?? 0) / Math.max(1, totals[slot] ?? 1)) * 100)} % in use`}>
            <SlotLine view={usage.value} slot={slot} total={totals[slot] ?? 0} />
          </Figure>
        ))}
        <Figure label="running" value={String(counts.get("running") ?? 0)} note={`${live} live`} />
        <Figure label="waiting" value={String(counts.get("pending") ?? 0)} note={`${waiting.items.reduce((all, one) => all + devices(one.slots), 0)} GPU requested`} />
        <Figure label="agents" value={String(agents.length)} note={plural(attention.length, "needs attention", "need attention")} />
        <Figure label="health" value={health.status} note={`version ${health.version}`} />
      </dl>
      <div class="columns">
        <section aria-label="why sessions wait">
          <h2>Why sessions wait</h2>
          {waiting.items.length ? (
            <ul class="reasons">
              {waiting.items.map((one) => (
                <li key={one.code}>
                  <a href={`/ui/sessions?status=pending&q=${encodeURIComponent(one.code)}`}><code>{one.code}</code></a>
                  <span>{plural(one.sessions, "session")}{devices(one.slots) ? `, ${devices(one.slots)} GPU` : ""}</span>
                  <span class="muted">{one.meaning}; the oldest for <Age at={one.oldest} /></span>
                </li>
              ))}
            </ul>
          ) : (
            <Empty title="No session waits." />
          )}
        </section>
        <section aria-label="needs attention">
          <h2>Needs attention</h2>
          {ill.length || attention.length ? (
            <ul class="reasons">
              {ill.map(([name, state]) => <li key={name}><strong>{name}</strong><span>{state}</span></li>)}
              {attention.slice(0, 20).map((one) => (
                <li key={one.id}>
                  <a href={`/ui/cluster?agent=${encodeURIComponent(one.id)}`}>{one.id}</a>
                  <span><State status={one.status} /> {one.failing_reason || (one.connected ? "" : "not connected")}</span>
                  {Object.entries(one.device_faults).map(([device, fault]) => <span key={device} class="muted">device {device}: {printable(fault)}</span>)}
                </li>
              ))}
            </ul>
          ) : (
            <Empty title="Everything works." />
          )}
        </section>
        <section aria-label="events">
          <h2>Just now</h2>
          {recent.value.length ? (
            <ol class="ticker">
              {recent.value.slice(0, 20).map((one, index) => (
                <li key={`${one.id} ${one.at} ${index}`}>
                  <Age at={one.at} /> <span>{one.object}</span> <code>{one.id}</code> <State status={one.after} />
                </li>
              ))}
            </ol>
          ) : (
            <Empty title="Nothing has happened since this page was opened." command="sokovan run -- hostname" />
          )}
        </section>
      </div>
    </div>
  );
}

function sum(parts: readonly Record<string, number>[]): Record<string, number> {
  const total: Record<string, number> = {};
  for (const part of parts) for (const [slot, value] of Object.entries(part)) total[slot] = (total[slot] ?? 0) + value;
  return total;
}

function devicesFirst(one: string, other: string): number {
  return Number(other.includes(".")) - Number(one.includes(".")) || one.localeCompare(other);
}
