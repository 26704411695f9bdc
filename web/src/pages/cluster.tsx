// The map of the cluster: HyperNodes, agents and how much of their devices is in use.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, call } from "../api.ts";
import { amount, plural, printable, shellWords } from "../format.ts";
import { clusterTick } from "../live/store.ts";
import { CELL, type MapAgent, type MapLayout, PER_ROW, type Tile, agentsOf, faultsOf, heldOn, impactOf, layout, neighbour, tileAt } from "../map.ts";
import { Confirm, CopyCommand, Empty, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useKeys } from "../parts/keys.ts";
import { useResource } from "../parts/resource.ts";
import { query, setQuery } from "../router.ts";
import { me } from "../session.ts";
import type { AgentView, FleetView, ProblemView } from "../wire.ts";

interface Cluster {
  fleet: FleetView;
  agents: MapAgent[];
}

export function ClusterPage() {
  const found = useResource<Cluster>(
    "cluster",
    async (signal) => {
      const fleet = await call<FleetView>("fleet", { signal });
      return { fleet, agents: agentsOf(fleet) };
    },
    clusterTick.value,
  );
  const asTable = query.value.get("view") === "table";
  const chosen = query.value.get("agent") ?? "";
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={12} />;
  const { fleet, agents } = found.value;
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
          <Map fleet={fleet} agents={agents} chosen={chosen} />
        )}
      </div>
      {agent ? <AgentDrawer agent={agent} fleet={fleet} onDone={found.retry} /> : null}
    </div>
  );
}

function used(agent: MapAgent, fleet: FleetView): string {
  const busy = agent.devices.filter((device) => (fleet.device_used[device] ?? 0) > 0).length;
  const faulty = faultsOf(agent, fleet).length;
  return agent.devices.length ? `${busy} of ${plural(agent.devices.length, "device")}${faulty ? ` (${faulty} faulty)` : ""}` : "no devices";
}

function AgentTable({ agents, fleet }: Cluster) {
  const [active, setActive] = useState(-1);
  const columns: GridColumn<MapAgent>[] = [
    { name: "State", width: "7rem", cell: (one) => <State status={one.status} /> },
    { name: "Agent", width: "minmax(9rem, 1fr)", cell: (one) => one.name },
    { name: "HyperNode", width: "minmax(7rem, 1fr)", cell: (one) => one.hypernode || "–" },
    { name: "In use", width: "minmax(9rem, 1fr)", cell: (one) => used(one, fleet) },
    { name: "Kernels", width: "5rem", right: true, cell: (one) => one.kernels },
    { name: "Sessions", width: "minmax(9rem, 2fr)", cell: (one) => heldOn(one, fleet).map((held) => held.name).join(", ") || "–" },
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

function Map({ agents, fleet, chosen }: Cluster & { chosen: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(900);
  const [active, setActive] = useState(-1);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(Math.max(200, element.clientWidth)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const plan = useMemo(() => layout(agents, fleet, width), [agents, fleet, width]);
  const dark = useDark();
  const here = plan.tiles[active];
  // The sessions of the agent in focus are outlined wherever else they are.
  const gang = useMemo(() => {
    const focused = here?.agent ?? agents.find((one) => one.name === chosen);
    return new Set(focused?.devices.map((device) => fleet.device_holder[device] ?? -1).filter((holder) => holder >= 0));
  }, [here, agents, fleet, chosen]);
  useEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && draw(canvas.current, { plan, fleet, width, active, chosen, gang }));
    return () => cancelAnimationFrame(frame);
  }, [plan, width, active, chosen, dark, gang]);
  const place = (event: MouseEvent) => {
    const at = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return tileAt(plan.tiles, event.clientX - at.left, event.clientY - at.top);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key.startsWith("Arrow")) setActive(neighbour(plan.tiles, active, event.key));
    else if (event.key === "Enter" && here) setQuery({ agent: here.agent.name });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  useKeys({ Escape: () => setQuery({ agent: "" }) });
  return (
    <div class="map" ref={box}>
      <p class="legend">
        <span><i class="cell used" /> in use</span>
        <span><i class="cell free" /> free</span>
        <span><i class="cell gang" /> same session</span>
        <span><i class="cell hatched" /> draining</span>
        <span><i class="cell away" /> not connected</span>
        <span><i class="cell faulty" /> faulty</span>
        <span class="muted">arrows move, Enter opens; the table shows the same</span>
      </p>
      <canvas
        ref={canvas} tabIndex={0} role="application" aria-roledescription="map of agents"
        aria-label={`map of ${plural(agents.length, "agent")}; arrow keys move, Enter opens`}
        onKeyDown={pressed} onMouseMove={(event) => setActive(place(event))}
        onClick={(event) => {
          const tile = plan.tiles[place(event)];
          if (tile) setQuery({ agent: tile.agent.name });
        }}
      />
      <p class="map-status" role="status">{here ? described(here.agent, fleet) : " "}</p>
    </div>
  );
}

function described(agent: MapAgent, fleet: FleetView): string {
  const held = heldOn(agent, fleet).map((one) => `${one.name} (${one.devices})`);
  const where = agent.hypernode ? ` in ${agent.hypernode}` : "";
  return `${agent.name}${where}: ${agent.status}, ${used(agent, fleet)} in use${held.length ? ` by ${held.join(", ")}` : ""}`;
}

function useDark(): boolean {
  const [dark, setDark] = useState(false);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const read = () => setDark((document.documentElement.dataset["theme"] ?? (media.matches ? "dark" : "light")) === "dark");
    read();
    media.addEventListener("change", read);
    const watch = new MutationObserver(read);
    watch.observe(document.documentElement, { attributes: true });
    return () => {
      media.removeEventListener("change", read);
      watch.disconnect();
    };
  }, []);
  return dark;
}

interface Picture {
  plan: MapLayout;
  fleet: FleetView;
  width: number;
  active: number;
  chosen: string;
  gang: ReadonlySet<number>;
}

function draw(canvas: HTMLCanvasElement, { plan, fleet, width, active, chosen, gang }: Picture): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(plan.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${plan.height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  // A colour is read from an element: variables themselves keep both themes.
  const colour = (name: string) => {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  };
  const [text, muted, free, full, same, bad, line] = ["--text", "--muted", "--cell-free", "--cell-used", "--cell-over", "--cell-away", "--accent"].map(colour) as [string, string, string, string, string, string, string];
  canvas.style.color = "";
  context.font = `500 12px ${style.fontFamily}`;
  for (const block of plan.blocks) {
    context.fillStyle = text;
    context.fillText(block.name, 0, block.y + 14);
    context.fillStyle = muted;
    context.fillText(`${block.used}/${block.total}`, context.measureText(block.name).width + 10, block.y + 14);
  }
  plan.tiles.forEach((tile, index) => {
    const { agent } = tile;
    const away = agent.status === "lost" || agent.status === "gone" || !agent.connected;
    const cells = agent.devices.length ? agent.devices : [-1];
    cells.forEach((device, cell) => {
      const taken = device < 0 ? agent.kernels > 0 : (fleet.device_used[device] ?? 0) > 0;
      const isGang = gang.has(fleet.device_holder[device] ?? -1);
      context.fillStyle = away ? bad : isGang ? same : taken ? full : free;
      const [left, top] = [tile.x + 2 + (cell % PER_ROW) * CELL, tile.y + 2 + Math.floor(cell / PER_ROW) * CELL];
      context.fillRect(left, top, CELL - 2, CELL - 2);
      if (fleet.device_fault[device]) cross(context, left, top, text);
    });
    if (agent.status === "draining") hatch(context, tile, text);
    if (index === active || agent.name === chosen) {
      context.strokeStyle = line;
      context.lineWidth = 2;
      context.strokeRect(tile.x, tile.y, tile.width - 1, tile.height - 1);
    }
  });
}

/** A device that gets no new kernels is crossed out, whether it is in use or not. */
function cross(context: CanvasRenderingContext2D, left: number, top: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(left + 1, top + 1);
  context.lineTo(left + CELL - 3, top + CELL - 3);
  context.moveTo(left + CELL - 3, top + 1);
  context.lineTo(left + 1, top + CELL - 3);
  context.stroke();
}

function hatch(context: CanvasRenderingContext2D, tile: Tile, colour: string): void {
  context.save();
  context.beginPath();
  context.rect(tile.x + 1, tile.y + 1, tile.width - 3, tile.height - 3);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = -tile.height; at < tile.width; at += 5) {
    context.moveTo(tile.x + at, tile.y + tile.height);
    context.lineTo(tile.x + at + tile.height, tile.y);
  }
  context.stroke();
  context.restore();
}

function AgentDrawer({ agent, fleet, onDone }: { agent: MapAgent; fleet: FleetView; onDone: () => void }) {
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const ref = encodeURIComponent(agent.name);
  const found = useResource<AgentView>(`agent ${agent.name}`, (signal) => call(`agents/${ref}`, { signal }), `${agent.status} ${clusterTick.value}`);
  const drained = agent.status === "draining";
  const verb = drained ? "undrain" : "drain";
  const held = heldOn(agent, fleet);
  const faults = faultsOf(agent, fleet);
  const act = () => {
    setAsking(false);
    call(`agents/${ref}`, { method: "PATCH", body: { action: verb, reason: "dashboard" } }).then(
      // The list of the fleet is shared by its readers for a moment.
      () => setTimeout(onDone, 200),
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

/** What a drain would take away, and what goes on meanwhile. */
function DrainImpact({ agent, fleet }: { agent: MapAgent; fleet: FleetView }) {
  const impact = impactOf(agent, fleet);
  const held = heldOn(agent, fleet);
  return (
    <div class="impact" aria-label="impact">
      <p>{plural(impact.free, "free device")} of it {impact.free === 1 ? "is" : "are"} no longer used; {impact.left} of {plural(impact.total, "device")} in the cluster stay open for new sessions.</p>
      {held.length ? <p>These sessions go on until they end:</p> : <p>No session holds a device of it.</p>}
      <ul class="reasons">{held.slice(0, 10).map((one) => <li key={one.id}>{one.name}<span class="muted">{plural(one.devices, "device")}{one.user ? ` of ${one.user}` : ""}</span></li>)}</ul>
      {held.length > 10 ? <p class="muted">and {plural(held.length - 10, "more session")}</p> : null}
    </div>
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
      ]}
    />
  );
}
