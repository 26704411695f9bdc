// The map of the cluster: HyperNodes, agents and how much of their devices is in use.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, all, call } from "../api.ts";
import { amount, deviceSlot, plural, shellWords } from "../format.ts";
import { clusterTick } from "../live/store.ts";
import { CELL, type MapLayout, type Tile, layout, neighbour, parentsOf, tileAt } from "../map.ts";
import { Confirm, CopyCommand, Empty, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useKeys } from "../parts/keys.ts";
import { useResource } from "../parts/resource.ts";
import { query, setQuery } from "../router.ts";
import { me } from "../session.ts";
import type { AgentView, ProblemView, TopologyView } from "../wire.ts";

interface Cluster {
  agents: AgentView[];
  parents: Map<string, string>;
}

export function ClusterPage() {
  const found = useResource<Cluster>(
    "cluster",
    async (signal) => {
      const [agents, topology] = await Promise.all([all<AgentView>("agents", signal), call<TopologyView>("topology", { signal })]);
      return { agents, parents: parentsOf(topology.tree) };
    },
    clusterTick.value,
  );
  const asTable = query.value.get("view") === "table";
  const chosen = query.value.get("agent") ?? "";
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={12} />;
  const { agents, parents } = found.value;
  const agent = agents.find((one) => one.id === chosen);
  const busy = agents.filter((one) => one.kernels > 0).length;
  return (
    <div class={`cluster${agent ? " with-drawer" : ""}`}>
      <div class="column">
        <div class="bar">
          <h1>Cluster</h1>
          <span class="muted">{plural(agents.length, "agent")}, {busy} with kernels</span>
          <span class="spring" />
          <div class="chips" role="group" aria-label="view">
            <button type="button" aria-pressed={!asTable} onClick={() => setQuery({ view: "" })}>map</button>
            <button type="button" aria-pressed={asTable} onClick={() => setQuery({ view: "table" })}>table</button>
          </div>
          <CopyCommand command={parents.size ? "sokovan topology show" : "sokovan agent ls"} />
        </div>
        {!agents.length ? (
          <Empty title="There are no agents. Start fake ones, or let a machine join:" command="sokovan up --fake 64x8" />
        ) : asTable ? (
          <AgentTable agents={agents} parents={parents} />
        ) : (
          <Map agents={agents} parents={parents} chosen={chosen} />
        )}
      </div>
      {agent ? <AgentDrawer agent={agent} parent={parents.get(agent.id) ?? ""} onDone={found.retry} /> : null}
    </div>
  );
}

function used(agent: AgentView): string {
  const slot = deviceSlot(agent.slots) || "cpu";
  return `${amount(slot, agent.used[slot] ?? 0)} of ${amount(slot, agent.slots[slot] ?? 0)} ${slot}`;
}

function AgentTable({ agents, parents }: Cluster) {
  const [active, setActive] = useState(-1);
  const columns: GridColumn<AgentView>[] = [
    { name: "State", width: "7rem", cell: (one) => <State status={one.status} /> },
    { name: "Agent", width: "minmax(9rem, 1fr)", cell: (one) => one.id },
    { name: "HyperNode", width: "minmax(7rem, 1fr)", cell: (one) => parents.get(one.id) || "–" },
    { name: "In use", width: "minmax(9rem, 1fr)", cell: used },
    { name: "Kernels", width: "5rem", right: true, cell: (one) => one.kernels },
    { name: "Scaling group", width: "minmax(7rem, 1fr)", cell: (one) => one.scaling_group },
  ];
  useKeys({
    j: () => setActive(Math.min(agents.length - 1, active + 1)),
    k: () => setActive(Math.max(0, active - 1)),
    Enter: () => agents[active] && setQuery({ agent: agents[active].id }),
    Escape: () => setQuery({ agent: "" }),
  });
  return (
    <Grid
      label="agents" items={agents} columns={columns} keyOf={(one) => one.id} active={active} onActive={setActive}
      onOpen={(one) => setQuery({ agent: one.id })}
    />
  );
}

function Map({ agents, parents, chosen }: Cluster & { chosen: string }) {
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
  const plan = useMemo(() => layout(agents, parents, width), [agents, parents, width]);
  const dark = useDark();
  useEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && draw(canvas.current, plan, width, active, chosen));
    return () => cancelAnimationFrame(frame);
  }, [plan, width, active, chosen, dark]);
  const here = plan.tiles[active];
  const place = (event: MouseEvent) => {
    const at = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return tileAt(plan.tiles, event.clientX - at.left, event.clientY - at.top);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key.startsWith("Arrow")) setActive(neighbour(plan.tiles, active, event.key));
    else if (event.key === "Enter" && here) setQuery({ agent: here.agent.id });
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
        <span><i class="cell hatched" /> draining</span>
        <span><i class="cell away" /> not connected</span>
        <span class="muted">arrows move, Enter opens; the table shows the same</span>
      </p>
      <canvas
        ref={canvas} tabIndex={0} role="application" aria-roledescription="map of agents"
        aria-label={`map of ${plural(agents.length, "agent")}; arrow keys move, Enter opens`}
        onKeyDown={pressed} onMouseMove={(event) => setActive(place(event))}
        onClick={(event) => {
          const tile = plan.tiles[place(event)];
          if (tile) setQuery({ agent: tile.agent.id });
        }}
      />
      <p class="map-status" role="status">
        {here ? `${here.agent.id}: ${here.agent.status}, ${used(here.agent)}, ${plural(here.agent.kernels, "kernel")}${parents.get(here.agent.id) ? `, in ${parents.get(here.agent.id)}` : ""}` : " "}
      </p>
    </div>
  );
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

function draw(canvas: HTMLCanvasElement, plan: MapLayout, width: number, active: number, chosen: string): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(plan.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${plan.height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const [text, muted, free, full, bad, line] = ["--text", "--muted", "--cell-free", "--cell-used", "--cell-away", "--accent"].map(colour);
  context.font = `500 12px ${style.fontFamily}`;
  for (const block of plan.blocks) {
    context.fillStyle = text ?? "";
    context.fillText(block.name, block.x, block.y + 14);
    context.fillStyle = muted ?? "";
    context.fillText(`${block.used}/${block.total}`, block.x + context.measureText(block.name).width + 10, block.y + 14);
  }
  plan.tiles.forEach((tile, index) => {
    const away = tile.agent.status === "lost" || tile.agent.status === "gone" || !tile.agent.connected;
    for (let cell = 0; cell < tile.cells; cell += 1) {
      context.fillStyle = (away ? bad : cell < tile.used ? full : free) ?? "";
      context.fillRect(tile.x + 2 + (cell % 8) * CELL, tile.y + 2 + Math.floor(cell / 8) * CELL, CELL - 2, CELL - 2);
    }
    if (tile.agent.status === "draining" || tile.agent.failing_since) hatch(context, tile, text ?? "");
    if (index === active || tile.agent.id === chosen) {
      context.strokeStyle = line ?? "";
      context.lineWidth = 2;
      context.strokeRect(tile.x, tile.y, tile.width - 1, tile.height - 1);
    }
  });
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

function AgentDrawer({ agent, parent, onDone }: { agent: AgentView; parent: string; onDone: () => void }) {
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const drained = agent.status === "draining";
  const verb = drained ? "undrain" : "drain";
  const act = () => {
    setAsking(false);
    call(`agents/${encodeURIComponent(agent.id)}`, { method: "PATCH", body: { action: verb, reason: "dashboard" } }).then(
      onDone,
      (error: unknown) => error instanceof Problem && setProblem(error.view),
    );
  };
  return (
    <aside class="drawer" aria-label={`agent ${agent.id}`}>
      <div class="bar">
        <h2>{agent.id}</h2>
        <span class="spring" />
        <button type="button" onClick={() => setQuery({ agent: "" })} aria-label="close">✕</button>
      </div>
      <p><State status={agent.status} /> {agent.connected ? "" : "not connected"}</p>
      {problem ? <ProblemBox problem={problem} /> : null}
      <Facts
        items={[
          ...Object.keys(agent.slots).sort().map((slot) => [slot, `${amount(slot, agent.used[slot] ?? 0)} of ${amount(slot, agent.slots[slot] ?? 0)} in use`] as const),
          ["kernels", String(agent.kernels)],
          ...(parent ? [["HyperNode", parent] as const] : []),
          ["scaling group", agent.scaling_group],
          ...(agent.taints.length ? [["taints", agent.taints.join(", ")] as const] : []),
          ...(agent.failing_since ? [["failing", agent.failing_reason] as const] : []),
        ]}
      />
      {me.value?.role === "admin" && (agent.status === "alive" || drained) ? (
        <button type="button" class={drained ? "" : "danger"} onClick={() => setAsking(true)}>{drained ? "Undrain" : "Drain"}</button>
      ) : null}
      <CopyCommand command={shellWords(["sokovan", "agent", "show", agent.id])} />
      {asking ? (
        <Confirm
          title={drained ? `Place sessions on ${agent.id} again?` : `Place nothing new on ${agent.id}? ${plural(agent.kernels, "kernel")} on it continue.`}
          action={drained ? "Undrain" : "Drain"} command={shellWords(["sokovan", "agent", verb, agent.id])} onYes={act}
          onNo={() => setAsking(false)}
        />
      ) : null}
    </aside>
  );
}
