// The map of devices: a canvas of what can be seen of it, and one active cell that keys move.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { plural } from "../format.ts";
import { type MapAgent, type MapLayout, type Spot, type Tile, PER_ROW, ZOOMS, cellAt, cellsOf, heldOn, layout, nextSpot, spotAt } from "../map.ts";
import { query, setQuery } from "../router.ts";
import { type Shading, modeOf, shading } from "../shade.ts";
import type { FleetView } from "../wire.ts";
import { useKeys } from "./keys.ts";

interface MapProps {
  fleet: FleetView;
  agents: MapAgent[];
  chosen: string;
}

export function ClusterMap({ agents, fleet, chosen }: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ width: 900, height: 600, top: 0 });
  const [active, setActive] = useState<Spot | null>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const read = () => setSeen({ width: Math.max(200, element.clientWidth), height: element.clientHeight, top: element.scrollTop });
    const watch = new ResizeObserver(read);
    watch.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      watch.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, []);
  const zoom = Math.max(0, Math.min(ZOOMS.length - 1, Math.trunc(Number(query.value.get("zoom"))) || 0));
  const mode = modeOf(query.value.get("by") ?? "");
  const plan = useMemo(() => layout(agents, fleet, seen.width, ZOOMS[zoom]), [agents, fleet, seen.width, zoom]);
  const shades = useMemo(() => shading(fleet, mode), [fleet, mode]);
  const dark = useDark();
  const here = active ? plan.tiles[active.tile] : undefined;
  // The session of the device in focus, or those of the agent that is open, are outlined wherever else they are.
  const gang = useMemo(() => {
    const open = agents.find((one) => one.name === chosen);
    const devices = here && active ? [here.agent.devices[active.cell] ?? -1] : (open?.devices ?? []);
    return new Set(devices.map((device) => fleet.device_holder[device] ?? -1).filter((holder) => holder >= 0));
  }, [here, active?.cell, agents, fleet, chosen]);
  useEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && draw(canvas.current, { plan, fleet, shades, seen, active, chosen, gang }));
    return () => cancelAnimationFrame(frame);
  }, [plan, shades, seen, active, chosen, dark, gang]);
  const place = (event: MouseEvent) => {
    const at = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return spotAt(plan, event.clientX - at.left, event.clientY - at.top + seen.top);
  };
  const open = (spot: Spot | null) => {
    const tile = spot ? plan.tiles[spot.tile] : undefined;
    if (tile) setQuery({ agent: tile.agent.name });
  };
  const move = (key: string) => {
    const next = nextSpot(plan, active, key);
    setActive(next);
    const element = box.current;
    const tile = plan.tiles[next.tile];
    if (!element || !tile) return;
    if (tile.y < element.scrollTop) element.scrollTop = tile.y - 30;
    else if (tile.y + tile.height > element.scrollTop + element.clientHeight) element.scrollTop = tile.y + tile.height + 10 - element.clientHeight;
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow") && plan.tiles.length) move(event.key);
    else if (event.key === "Enter" && here) open(active);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const zoomTo = (to: number) => setQuery({ zoom: to > 0 ? String(Math.min(ZOOMS.length - 1, to)) : "" });
  useKeys({ Escape: () => setQuery({ agent: "" }), "+": () => zoomTo(zoom + 1), "=": () => zoomTo(zoom + 1), "-": () => zoomTo(zoom - 1) });
  const text = here && active ? described(here.agent, fleet, here.agent.devices[active.cell] ?? -1) : "";
  return (
    <>
      <div class="map-bar">
        <Legend shades={shades} />
        <span class="pair" role="group" aria-label="zoom">
          <button type="button" aria-label="smaller" disabled={zoom === 0} onClick={() => zoomTo(zoom - 1)}>−</button>
          <button type="button" aria-label="larger" disabled={zoom === ZOOMS.length - 1} onClick={() => zoomTo(zoom + 1)}>+</button>
        </span>
      </div>
      <div
        class="map" ref={box} tabIndex={0} role="grid" aria-label={`map of the devices of ${plural(agents.length, "agent")}; arrow keys move, Enter opens, + and - zoom`}
        aria-rowcount={plan.tiles.length} aria-colcount={PER_ROW} aria-activedescendant={text ? "map-cell" : undefined} onKeyDown={pressed}
      >
        <div class="map-space" role="presentation" style={{ height: `${plan.height}px` }}>
          <canvas ref={canvas} aria-hidden="true" onMouseMove={(event) => setActive(place(event))} onMouseLeave={() => setActive(null)} onClick={(event) => open(place(event))} />
        </div>
        <div class="offscreen" role="row" aria-rowindex={(active?.tile ?? 0) + 1}>
          <span id="map-cell" role="gridcell" aria-colindex={((active?.cell ?? 0) % PER_ROW) + 1}>{text || "no device is active"}</span>
        </div>
      </div>
      <p class="map-status">{text || <span class="muted">arrows move, Enter opens, + and − zoom; the table shows the same</span>}</p>
    </>
  );
}

function Legend({ shades }: { shades: Shading }) {
  return (
    <p class="legend" aria-label="legend">
      {shades.legend.map((one) => (
        <span key={one.label}><i class={`cell ${one.colour}`}>{one.letter}</i> {one.label} <span class="muted">{one.devices}</span></span>
      ))}
      <span><i class="cell gang" /> same session</span>
      <span><i class="cell hatched" /> draining</span>
      <span><i class="cell away" /> not connected</span>
      <span><i class="cell faulty" /> faulty</span>
    </p>
  );
}

/** The colour of an agent without devices: other modes say something of devices only. */
function ofAgent(agent: MapAgent, shades: Shading): string {
  return shades.mode === "state" && agent.kernels > 0 ? "used" : "free";
}

/** The whole cluster in the width of a column; the page of the cluster has the rest. */
export function SmallMap({ fleet, agents }: { fleet: FleetView; agents: MapAgent[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLAnchorElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const dark = useDark();
  const shades = useMemo(() => shading(fleet, "state"), [fleet]);
  const used = shades.legend[0]?.devices ?? 0;
  useEffect(() => {
    const frame = requestAnimationFrame(() => canvas.current && width && drawSmall(canvas.current, agents, shades, width));
    return () => cancelAnimationFrame(frame);
  }, [agents, shades, width, dark]);
  return (
    <a class="small-map" ref={box} href="/ui/cluster" aria-label={`map of the cluster: ${used} of ${plural(fleet.device.length, "device")} in use`}>
      <canvas ref={canvas} aria-hidden="true" />
    </a>
  );
}

function described(agent: MapAgent, fleet: FleetView, device: number): string {
  const where = agent.hypernode ? ` in ${agent.hypernode}` : "";
  const place = `${agent.name}${where}, ${agent.status}${agent.connected ? "" : ", not connected"}`;
  if (device < 0) return `${place}: no devices, ${plural(agent.kernels, "kernel")}`;
  const holder = fleet.holders[fleet.device_holder[device] ?? -1];
  const isUsed = (fleet.device_used[device] ?? 0) > 0;
  const held = holder ? `${holder.name || holder.id} of ${holder.user} in ${holder.queue}` : isUsed ? "a session of another user" : "free";
  const figures = ([["use", fleet.device_use, " %"], ["memory", fleet.device_memory, " %"], ["", fleet.device_temperature, " °C"]] as const)
    .flatMap(([name, column, unit]) => ((column?.[device] ?? -1) < 0 ? [] : [`${name} ${column?.[device]}${unit}`.trim()]));
  const fault = fleet.device_fault?.[device];
  return `${fleet.device[device]} of ${place}: ${[held, ...figures, ...(fault ? [`fault: ${fault}`] : [])].join(", ")}`;
}

/** What an agent's sessions are, for its row of the table. */
export function sessionsOn(agent: MapAgent, fleet: FleetView): string {
  return heldOn(agent, fleet).map((held) => held.name).join(", ");
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

/** Colours of the theme by name, read from an element: variables themselves keep both themes. */
function paints(canvas: HTMLCanvasElement): (name: string) => string {
  const known = new Map<string, string>();
  return (name) => {
    const before = known.get(name);
    if (before !== undefined) return before;
    canvas.style.color = `var(--${name})`;
    const found = getComputedStyle(canvas).color;
    canvas.style.color = "";
    known.set(name, found);
    return found;
  };
}

function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  return context;
}

interface Picture {
  plan: MapLayout;
  fleet: FleetView;
  shades: Shading;
  seen: { width: number; height: number; top: number };
  active: Spot | null;
  chosen: string;
  gang: ReadonlySet<number>;
}

/** Only what can be seen is drawn: the whole map of a large cluster is taller than any canvas. */
function draw(canvas: HTMLCanvasElement, picture: Picture): void {
  const { plan, seen } = picture;
  const context = sized(canvas, seen.width, seen.height);
  if (!context) return;
  const paint = paints(canvas);
  const font = getComputedStyle(canvas).fontFamily;
  context.translate(0, -seen.top);
  const isSeen = (y: number, height: number) => y + height >= seen.top && y <= seen.top + seen.height;
  for (const block of plan.blocks) {
    if (!isSeen(block.y - 22, 44)) continue;
    if (block.above) {
      context.font = `600 13px ${font}`;
      context.fillStyle = paint("text");
      context.fillText(block.above, 0, block.y - 6);
    }
    context.font = `500 12px ${font}`;
    context.fillStyle = paint("text");
    context.fillText(block.name, 0, block.y + 14);
    const at = context.measureText(block.name).width + 10;
    context.fillStyle = paint("muted");
    context.fillText(block.total ? `${block.used}/${block.total} in use, largest gang ${block.open}` : "no devices", at, block.y + 14);
  }
  context.textAlign = "center";
  context.textBaseline = "middle";
  // Once for all cells: setting it takes longer than drawing one.
  context.font = `600 ${Math.round(plan.size * 0.55)}px ${font}`;
  plan.tiles.forEach((tile, index) => {
    if (isSeen(tile.y, tile.height)) drawTile(context, tile, index, picture, paint);
  });
}

function drawTile(context: CanvasRenderingContext2D, tile: Tile, index: number, picture: Picture, paint: (name: string) => string): void {
  const { plan, fleet, shades, active, chosen, gang } = picture;
  const { agent } = tile;
  const away = agent.status === "lost" || agent.status === "gone" || !agent.connected;
  const side = plan.size - 2;
  for (let cell = 0; cell < cellsOf(agent); cell += 1) {
    const device = agent.devices[cell] ?? -1;
    const shade = device < 0 ? { colour: ofAgent(agent, shades), letter: "" } : shades.shadeOf(device);
    const [left, top] = cellAt(plan, { tile: index, cell });
    context.fillStyle = paint(away ? "cell-away" : `cell-${shade.colour}`);
    context.fillRect(left, top, side, side);
    if (shade.letter && !away && plan.size >= (ZOOMS[1] ?? 0)) {
      context.fillStyle = paint(/^(group|step-[34]|used)/.test(shade.colour) ? "on-cell" : "text");
      context.fillText(shade.letter, left + side / 2, top + side / 2 + 1);
    }
    if (gang.has(fleet.device_holder[device] ?? -1)) {
      context.strokeStyle = paint("cell-gang");
      context.lineWidth = 3;
      context.strokeRect(left + 1.5, top + 1.5, side - 3, side - 3);
    }
    if (fleet.device_fault?.[device]) cross(context, left, top, side, paint("text"));
    if (active?.tile === index && active.cell === cell) {
      context.strokeStyle = paint("text");
      context.lineWidth = 2;
      context.strokeRect(left - 1, top - 1, side + 2, side + 2);
    }
  }
  if (agent.status === "draining") hatch(context, tile, paint("text"));
  if (index === active?.tile || agent.name === chosen) {
    context.strokeStyle = paint("accent");
    context.lineWidth = agent.name === chosen ? 2 : 1;
    context.strokeRect(tile.x - 0.5, tile.y - 0.5, tile.width, tile.height);
  }
}

/** A device that gets no new kernels is crossed out, whether it is in use or not. */
function cross(context: CanvasRenderingContext2D, left: number, top: number, side: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(left + 1, top + 1);
  context.lineTo(left + side - 1, top + side - 1);
  context.moveTo(left + side - 1, top + 1);
  context.lineTo(left + 1, top + side - 1);
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

const SMALL_HEIGHT = 160;

function drawSmall(canvas: HTMLCanvasElement, agents: readonly MapAgent[], shades: Shading, width: number): void {
  const cells = agents.flatMap((agent) => (agent.devices.length ? agent.devices.map((device) => [agent, device] as const) : [[agent, -1] as const]));
  const size = Math.max(1, Math.min(9, Math.floor(Math.sqrt((width * SMALL_HEIGHT) / Math.max(1, cells.length)))));
  const columns = Math.max(1, Math.floor(width / size));
  const context = sized(canvas, width, Math.ceil(cells.length / columns) * size);
  if (!context) return;
  const paint = paints(canvas);
  const side = size > 3 ? size - 1 : size;
  cells.forEach(([agent, device], at) => {
    const away = agent.status === "lost" || agent.status === "gone" || !agent.connected;
    const colour = device < 0 ? ofAgent(agent, shades) : shades.shadeOf(device).colour;
    context.fillStyle = paint(away ? "cell-away" : `cell-${colour}`);
    context.fillRect((at % columns) * size, Math.floor(at / columns) * size, side, side);
  });
}
