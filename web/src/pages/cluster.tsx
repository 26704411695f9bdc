// The page of the cluster: its map or its table, and an agent with its devices.
import { useState } from "preact/hooks";
import { Problem, call } from "../api.ts";
import { amount, plural, printable, shellWords } from "../format.ts";
import { clusterTick, now } from "../live/store.ts";
import { type MapAgent, faultsOf, heldOn, impactOf } from "../map.ts";
import { Confirm, CopyCommand, Empty, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { useFleet } from "../parts/fleet.ts";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useKeys } from "../parts/keys.ts";
import { ClusterMap, sessionsOn } from "../parts/map.tsx";
import { useResource } from "../parts/resource.ts";
import { AgentUse } from "../parts/use.tsx";
import { query, setQuery } from "../router.ts";
import { me } from "../session.ts";
import { MODES, modeOf } from "../shade.ts";
import type { AgentImpactView, AgentView, FleetView, ProblemView } from "../wire.ts";

interface Cluster {
  fleet: FleetView;
  agents: MapAgent[];
}

// Figures of devices change without an event.
const FIGURES_MS = 10_000;

export function ClusterPage() {
  const mode = modeOf(query.value.get("by") ?? "");
  const { fleet, agents, problem, retry } = useFleet();
  const asTable = query.value.get("view") === "table";
  const chosen = query.value.get("agent") ?? "";
  if (problem && !fleet) return <ProblemBox problem={problem} retry={retry} />;
  if (!fleet) return <Skeleton lines={12} />;
  const agent = agents.find((one) => one.name === chosen);
  const used = fleet.device_used.filter((units) => units > 0).length;
  const faulty = fleet.device_fault.filter(Boolean).length;
  return (
    <div class={`cluster${agent ? " with-drawer" : ""}`}>
      <div class="column">
        <div class="bar">
          <h1>Cluster</h1>
          <span class="muted">{plural(agents.length, "agent")}, {used} of {plural(fleet.device.length, "device")} in use{faulty ? <>, <strong>{faulty} faulty</strong></> : null}</span>
          <span class="spring" />
          {asTable ? null : (
            <div class="chips" role="group" aria-label="colour by">
              {MODES.map((one) => <button key={one} type="button" aria-pressed={one === mode} onClick={() => setQuery({ by: one === "state" ? "" : one })}>{one}</button>)}
            </div>
          )}
          <div class="chips" role="group" aria-label="view">
            <button type="button" aria-pressed={!asTable} onClick={() => setQuery({ view: "" })}>map</button>
            <button type="button" aria-pressed={asTable} onClick={() => setQuery({ view: "table" })}>table</button>
          </div>
          <CopyCommand command={asTable ? "sokovan agent ls" : "sokovan agent devices"} />
        </div>
        {!agents.length ? (
          <Empty title="There are no agents. Start fake ones, or let a machine join:" command="sokovan up --fake 64x8" />
        ) : asTable ? (
          <AgentTable fleet={fleet} agents={agents} />
        ) : (
          <ClusterMap fleet={fleet} agents={agents} chosen={chosen} />
        )}
      </div>
      {agent ? <AgentDrawer agent={agent} fleet={fleet} /> : null}
    </div>
  );
}

function used(agent: MapAgent, fleet: FleetView): string {
  const busy = agent.devices.filter((device) => (fleet.device_used[device] ?? 0) > 0).length;
  const faulty = faultsOf(agent, fleet).length;
  return agent.devices.length ? `${busy} of ${plural(agent.devices.length, "device")}${faulty ? ` (${faulty} faulty)` : ""}` : "no devices";
}

/** The mean of what is measured of an agent's devices. */
function average(agent: MapAgent, column: readonly number[] | undefined): string {
  const known = agent.devices.flatMap((device) => ((column?.[device] ?? -1) < 0 ? [] : [column?.[device] ?? 0]));
  return known.length ? `${Math.round(known.reduce((sum, one) => sum + one, 0) / known.length)} %` : "–";
}

function AgentTable({ agents, fleet }: Cluster) {
  const [active, setActive] = useState(-1);
  const columns: GridColumn<MapAgent>[] = [
    { name: "State", width: "7rem", cell: (one) => <State status={one.status} /> },
    { name: "Agent", width: "minmax(9rem, 1fr)", cell: (one) => one.name },
    { name: "HyperNode", width: "minmax(7rem, 1fr)", cell: (one) => one.hypernode || "–" },
    { name: "In use", width: "minmax(9rem, 1fr)", cell: (one) => used(one, fleet) },
    { name: "Use", width: "4.5rem", right: true, cell: (one) => average(one, fleet.device_use) },
    { name: "Memory", width: "5.5rem", right: true, cell: (one) => average(one, fleet.device_memory) },
    { name: "Kernels", width: "5rem", right: true, cell: (one) => one.kernels },
    { name: "Sessions", width: "minmax(9rem, 2fr)", cell: (one) => sessionsOn(one, fleet) || "–" },
  ];
  useKeys({
    j: () => setActive(Math.min(agents.length - 1, active + 1)),
    k: () => setActive(Math.max(0, active - 1)),
    Enter: () => agents[active] && setQuery({ agent: agents[active].name }),
    Escape: () => setQuery({ agent: "" }),
  });
  return (
    <Grid
      label="agents" items={agents} columns={columns} keyOf={(one) => one.name} active={active} onActive={setActive}
      onOpen={(one) => setQuery({ agent: one.name })}
    />
  );
}

function AgentDrawer({ agent, fleet }: { agent: MapAgent; fleet: FleetView }) {
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const ref = encodeURIComponent(agent.name);
  const found = useResource<AgentView>(`agent ${agent.name}`, (signal) => call(`agents/${ref}`, { signal }), `${agent.status} ${clusterTick.value} ${Math.floor(now.value / FIGURES_MS)}`);
  const drained = agent.status === "draining";
  const verb = drained ? "undrain" : "drain";
  const held = heldOn(agent, fleet);
  const faults = faultsOf(agent, fleet);
  const act = () => {
    setAsking(false);
    call(`agents/${ref}`, { method: "PATCH", body: { action: verb, reason: "dashboard" } }).catch(
      (error: unknown) => error instanceof Problem && setProblem(error.view),
    );
  };
  return (
    <aside class="drawer" aria-label={`agent ${agent.name}`}>
      <div class="bar">
        <h2>{agent.name}</h2>
        <span class="spring" />
        <button type="button" onClick={() => setQuery({ agent: "" })} aria-label="close">✕</button>
      </div>
      <p><State status={agent.status} /> {agent.connected ? "" : "not connected"}</p>
      {problem ? <ProblemBox problem={problem} /> : null}
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {found.value ? <AgentFacts agent={found.value} hypernode={agent.hypernode} /> : <Skeleton lines={5} />}
      <h2>Devices</h2>
      {held.length ? (
        <ul class="reasons">
          {held.map((one) => (
            <li key={one.id}>{one.id ? <a href={`/ui/sessions/${encodeURIComponent(one.id)}`}>{one.name}</a> : one.name}<span class="muted">{plural(one.devices, "device")}{one.user ? ` of ${one.user}` : ""}</span></li>
          ))}
        </ul>
      ) : (
        <p class="muted">none in use</p>
      )}
      {found.value ? <AgentUse key={agent.name} agent={found.value} /> : null}
      {found.value ? <DeviceFigures agent={found.value} /> : null}
      {faults.length ? (
        <>
          <h2>Faulty devices</h2>
          <ul class="reasons" aria-label="faulty devices">
            {faults.map((one) => <li key={one.device}><code>{one.device}</code><span>{printable(one.fault)}</span></li>)}
          </ul>
          <p class="muted">They get no new kernels until the agent finds them well again.</p>
          <CopyCommand command={shellWords(["sokovan", "agent", "devices", agent.name])} />
        </>
      ) : null}
      <div class="actions">
        {me.value?.role === "admin" && (agent.status === "alive" || drained) ? (
          <button type="button" class={drained ? "" : "danger"} onClick={() => setAsking(true)}>{drained ? "Undrain" : "Drain"}</button>
        ) : null}
        <CopyCommand command={shellWords(["sokovan", "agent", "show", agent.name])} />
      </div>
      {asking ? (
        <Confirm
          title={drained ? `Place sessions on ${agent.name} again?` : `Place nothing new on ${agent.name}? ${plural(agent.kernels, "kernel")} on it ${agent.kernels === 1 ? "continues" : "continue"}.`}
          action={drained ? "Undrain" : "Drain"} command={shellWords(["sokovan", "agent", verb, agent.name])} onYes={act}
          onNo={() => setAsking(false)}
        >
          {drained ? null : <DrainImpact agent={agent} fleet={fleet} />}
        </Confirm>
      ) : null}
    </aside>
  );
}

/** What a drain would take away, and what goes on meanwhile; the server says it without a change. */
function DrainImpact({ agent, fleet }: { agent: MapAgent; fleet: FleetView }) {
  const devices = impactOf(agent, fleet);
  const found = useResource<AgentImpactView>(
    `impact ${agent.name}`, (signal) => call(`agents/${encodeURIComponent(agent.name)}?dry_run=true`, { method: "PATCH", body: { action: "drain" }, signal }), clusterTick.value,
  );
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  const impact = found.value;
  if (!impact) return <Skeleton lines={3} />;
  const more = impact.left_out + Math.max(0, impact.sessions.length - 10);
  return (
    <div class="impact" aria-label="impact">
      <p>{devices.free ? `${plural(devices.free, "free device")} of it ${devices.free === 1 ? "is" : "are"} no longer used` : "It has no free device"}; {devices.left} of {plural(devices.total, "device")} in the cluster stay open for new sessions.</p>
      <p>{impact.group_agents_after} of {plural(impact.group_agents, "agent")} of {impact.scaling_group} accept work afterwards.</p>
      {impact.sessions.length ? <p>These sessions go on until they end:</p> : <p>No session has a kernel on it.</p>}
      <ul class="reasons">{impact.sessions.slice(0, 10).map((one) => <li key={one.id}>{printable(one.name)}<span class="muted">{one.kernels} of {plural(one.size, "kernel")} of {one.user}{one.moves ? "; ends after another replica serves elsewhere" : ""}</span></li>)}</ul>
      {more ? <p class="muted">and {plural(more, "more session")}</p> : null}
    </div>
  );
}

/** What its devices do, as the agent measured it last. */
function DeviceFigures({ agent }: { agent: AgentView }) {
  const figures = Object.entries(agent.devices ?? {});
  if (!figures.length) return null;
  const shown = (value: number | null | undefined, unit: string) => (value === null || value === undefined ? "–" : `${value}${unit}`);
  return (
    <table class="narrow" aria-label="figures of devices">
      <thead><tr><th>Device</th><th class="right">Use</th><th class="right">Memory</th><th class="right">Heat</th></tr></thead>
      <tbody>
        {figures.map(([device, one]) => (
          <tr key={device}>
            <th scope="row"><code>{device}</code></th>
            <td class="right">{shown(one.use_percent, " %")}</td>
            <td class="right">{one.memory_used_bytes === null || one.memory_used_bytes === undefined ? "–" : `${amount("mem", one.memory_used_bytes)} of ${amount("mem", one.memory_bytes ?? 0)}`}</td>
            <td class="right">{shown(one.temperature_c, " °C")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function AgentFacts({ agent, hypernode }: { agent: AgentView; hypernode: string }) {
  return (
    <Facts
      items={[
        ...Object.keys(agent.slots).sort().map((slot) => [slot, `${amount(slot, agent.used[slot] ?? 0)} of ${amount(slot, agent.slots[slot] ?? 0)} in use`] as const),
        ["kernels", String(agent.kernels)],
        ...(hypernode ? [["HyperNode", hypernode] as const] : []),
        ["scaling group", agent.scaling_group],
        ...(agent.taints.length ? [["taints", agent.taints.join(", ")] as const] : []),
        ...(agent.failing_since ? [["failing", agent.failing_reason] as const] : []),
        ...(agent.unapproved.length ? [["not approved", agent.unapproved.join(", ")] as const] : []),
      ]}
    />
  );
}
