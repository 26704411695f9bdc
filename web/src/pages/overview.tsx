// The cluster in figures, why sessions wait, what needs attention, and what just happened.
import { call } from "../api.ts";
import { amount, devices, trimmed, plural, printable } from "../format.ts";
import { clusterTick, loaded, recent } from "../live/store.ts";
import { Age, CopyCommand, Empty, Figure, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { useCounts } from "../parts/counts.ts";
import { useFleet } from "../parts/fleet.ts";
import { SmallMap } from "../parts/map.tsx";
import { useResource } from "../parts/resource.ts";
import { AgentLine, SessionLine, SlotLine, useUsage, WaitingLine } from "../parts/usage.tsx";
import { needingAttention } from "../map.ts";
import { ENDED } from "../states.ts";
import type { HealthView, WaitingView } from "../wire.ts";

interface Figures {
  waiting: WaitingView;
  health: HealthView;
}

export function OverviewPage() {
  const found = useResource<Figures>(
    "overview",
    async (signal) => {
      const [waiting, health] = await Promise.all([
        call<WaitingView>("sessions/waiting", { signal }),
        call<HealthView>("health", { signal }),
      ]);
      return { waiting, health };
    },
    clusterTick.value,
  );
  const { fleet, agents, problem, retry } = useFleet();
  const usage = useUsage("by=all");
  const levels = useUsage("by=all&of=sessions");
  const gpus = useUsage("by=all&of=gpus");
  const alive = useUsage("by=all&of=agents");
  const counts = useCounts();
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (problem && !fleet) return <ProblemBox problem={problem} retry={retry} />;
  if (!found.value || !fleet || !loaded.value) return <Skeleton lines={10} />;
  const { waiting, health } = found.value;
  const { slots: totals = {}, used = {} } = fleet;
  const live = [...counts].reduce((sum, [status, count]) => (ENDED.has(status) ? sum : sum + count), 0);
  const attention = needingAttention(fleet);
  const ill = Object.entries(health.parts).filter(([name, state]) => name !== "agents" && state !== "ok");
  return (
    <div class="overview">
      <div class="bar">
        <h1>Overview</h1>
        <span class="muted">version {health.version}</span>
        <span class="spring" />
        <CopyCommand command="sokovan status" />
      </div>
      <dl class="figures">
        {Object.keys(totals).sort(devicesFirst).map((slot) => (
          <Figure key={slot} label={slot} value={`${amount(slot, used[slot] ?? 0)} / ${amount(slot, totals[slot] ?? 0)}`} note={`${Math.round(((used[slot] ?? 0) / Math.max(1, totals[slot] ?? 1)) * 100)} % in use`}>
            <SlotLine view={usage.value} slot={slot} total={totals[slot] ?? 0} />
          </Figure>
        ))}
        <Figure label="running" value={String(counts.get("running") ?? 0)} note={`${live} live`}>
          <SessionLine view={levels.value} level="running" />
        </Figure>
        <Figure label="waiting" value={String(counts.get("pending") ?? 0)} note={plural(waiting.items.length, "reason")}>
          <SessionLine view={levels.value} level="waiting" />
        </Figure>
        <Figure label="GPUs waiting" value={trimmed(waiting.items.reduce((all, one) => all + devices(one.slots), 0))} note="requested">
          <WaitingLine view={gpus.value} />
        </Figure>
        <Figure label="health" value={health.status} note={`${plural(fleet.agents.length, "agent")}${attention.length ? `, ${plural(attention.length, "needs attention", "need attention")}` : ""}`}>
          <AgentLine view={alive.value} total={fleet.agents.length} />
        </Figure>
      </dl>
      {fleet.agents.length ? (
        <section class="panel" aria-label="map">
          <h2>Devices</h2>
          <SmallMap fleet={fleet} agents={agents} />
        </section>
      ) : null}
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
                <li key={one.name}>
                  <a href={`/ui/cluster?agent=${encodeURIComponent(one.name)}`}>{one.name}</a>
                  <span><State status={one.status} /> {one.problem}</span>
                  {one.faults.map(([device, fault]) => <span key={device} class="muted">device {device}: {printable(fault)}</span>)}
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

function devicesFirst(one: string, other: string): number {
  return Number(other.includes(".")) - Number(one.includes(".")) || one.localeCompare(other);
}
