// Where agents and their devices are on the map. Pure: the page draws what this lays out.
import type { FleetView } from "./wire.ts";

export interface MapAgent {
  name: string;
  status: string;
  connected: boolean;
  kernels: number;
  hypernode: string;
  /** Places in the columns of devices. */
  devices: number[];
}

export interface Tile {
  agent: MapAgent;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Block {
  name: string;
  /** The HyperNodes above it; empty unless it is the first below them. */
  above: string;
  y: number;
  used: number;
  total: number;
  /** Free devices for new sessions: so many kernels with one device each start here together. */
  open: number;
}

export interface MapLayout {
  tiles: Tile[];
  blocks: Block[];
  height: number;
  /** The size of a cell. */
  size: number;
}

/** A device by its tile and its place in it. */
export interface Spot {
  tile: number;
  cell: number;
}

/** Sizes of cells, by how far the map is zoomed in. */
export const ZOOMS = [11, 17, 26] as const;
export const PER_ROW = 8;
const GAP = 8;
const LABEL = 22;

export function agentsOf(fleet: FleetView): MapAgent[] {
  const agents = fleet.agents.map((name, at) => ({
    name,
    status: fleet.status[at] ?? "",
    connected: fleet.connected[at] ?? false,
    kernels: fleet.kernels[at] ?? 0,
    hypernode: fleet.hypernodes[fleet.hypernode[at] ?? -1] ?? "",
    devices: [] as number[],
  }));
  fleet.device_agent.forEach((agent, device) => agents[agent]?.devices.push(device));
  return agents;
}

function byName(one: string, other: string): number {
  // Agents in no HyperNode come last.
  if (one === "" || other === "") return one === other ? 0 : one === "" ? 1 : -1;
  return one.localeCompare(other, "en", { numeric: true });
}

/** The HyperNodes above one, the outermost first, without one that is above everything. */
function aboveOf(fleet: FleetView): (hypernode: string) => string {
  const parents = fleet.hypernode_parent ?? [];
  const places = new Map(fleet.hypernodes.map((name, place) => [name, place]));
  const tops = new Set(parents.flatMap((parent, place) => (parent < 0 ? [place] : [])));
  const hasOneTop = tops.size === 1;
  return (hypernode) => {
    const names: string[] = [];
    let at = parents[places.get(hypernode) ?? -1] ?? -1;
    // As deep as there are HyperNodes: an answer that goes in circles ends as well.
    for (let depth = 0; at >= 0 && depth < parents.length; depth += 1) {
      if (!(hasOneTop && tops.has(at))) names.unshift(fleet.hypernodes[at] ?? "");
      at = parents[at] ?? -1;
    }
    return names.join(" / ");
  };
}

/** Whether new kernels may get this device. */
function isOpen(agent: MapAgent, fleet: FleetView, device: number): boolean {
  const accepts = agent.status === "alive" && agent.connected && !fleet.failing?.[agent.name];
  return accepts && (fleet.device_used[device] ?? 0) === 0 && !fleet.device_fault?.[device];
}

export function layout(agents: readonly MapAgent[], fleet: FleetView, width: number, size: number = ZOOMS[0]): MapLayout {
  const groups = new Map<string, MapAgent[]>();
  for (const agent of agents) {
    const group = groups.get(agent.hypernode);
    if (group) group.push(agent);
    else groups.set(agent.hypernode, [agent]);
  }
  const above = aboveOf(fleet);
  const order = [...groups.keys()].sort((one, other) => (one && other ? byName(above(one), above(other)) : 0) || byName(one, other));
  const tiles: Tile[] = [];
  const blocks: Block[] = [];
  let y = 0;
  let last = "";
  for (const name of order) {
    const upper = above(name);
    const isFirst = upper !== "" && upper !== last;
    last = upper;
    if (isFirst) y += LABEL;
    const block: Block = { name: name || (groups.size > 1 ? "in no HyperNode" : "agents"), above: isFirst ? upper : "", y, used: 0, total: 0, open: 0 };
    blocks.push(block);
    y += LABEL;
    let x = 0;
    let tallest = 0;
    for (const agent of groups.get(name) ?? []) {
      // An agent without devices is one cell.
      const cells = cellsOf(agent);
      const box = { width: Math.min(PER_ROW, cells) * size + 4, height: Math.ceil(cells / PER_ROW) * size + 4 };
      if (x > 0 && x + box.width > width) {
        x = 0;
        y += tallest + GAP;
        tallest = 0;
      }
      tiles.push({ agent, x, y, ...box });
      block.total += agent.devices.length;
      for (const device of agent.devices) {
        if ((fleet.device_used[device] ?? 0) > 0) block.used += 1;
        if (isOpen(agent, fleet, device)) block.open += 1;
      }
      x += box.width + GAP;
      tallest = Math.max(tallest, box.height);
    }
    y += tallest + 2 * GAP;
  }
  return { tiles, blocks, height: Math.max(y, 1), size };
}

export function cellsOf(agent: MapAgent): number {
  return Math.max(1, agent.devices.length);
}

/** Where a cell is: left and top. */
export function cellAt(plan: MapLayout, spot: Spot): [number, number] {
  const tile = plan.tiles[spot.tile];
  if (!tile) return [0, 0];
  return [tile.x + 2 + (spot.cell % PER_ROW) * plan.size, tile.y + 2 + Math.floor(spot.cell / PER_ROW) * plan.size];
}

/** The cell at a point of the map. */
export function spotAt(plan: MapLayout, x: number, y: number): Spot | null {
  const at = plan.tiles.findIndex((tile) => x >= tile.x && x < tile.x + tile.width && y >= tile.y && y < tile.y + tile.height);
  const tile = plan.tiles[at];
  if (!tile) return null;
  const column = Math.max(0, Math.min(PER_ROW - 1, Math.floor((x - tile.x - 2) / plan.size)));
  const row = Math.max(0, Math.floor((y - tile.y - 2) / plan.size));
  return { tile: at, cell: Math.min(cellsOf(tile.agent) - 1, row * PER_ROW + column) };
}

/** The cell that an arrow key leads to; the first one from nowhere. */
export function nextSpot(plan: MapLayout, from: Spot | null, key: string): Spot {
  const here = from && plan.tiles[from.tile];
  if (!from || !here) return { tile: 0, cell: 0 };
  const { tile, cell } = from;
  const last = cellsOf(here.agent) - 1;
  const before = plan.tiles[tile - 1];
  if (key === "ArrowRight") return cell < last ? { tile, cell: cell + 1 } : tile + 1 < plan.tiles.length ? { tile: tile + 1, cell: 0 } : from;
  if (key === "ArrowLeft") return cell > 0 ? { tile, cell: cell - 1 } : before ? { tile: tile - 1, cell: cellsOf(before.agent) - 1 } : from;
  const step = key === "ArrowDown" ? PER_ROW : -PER_ROW;
  if (cell + step >= 0 && cell + step <= last) return { tile, cell: cell + step };
  const [x] = cellAt(plan, from);
  const next = neighbour(plan.tiles, tile, key, x);
  const there = plan.tiles[next];
  if (next === tile || !there) return from;
  const column = Math.max(0, Math.min(PER_ROW - 1, Math.round((x - there.x - 2) / plan.size)));
  const count = cellsOf(there.agent);
  const row = key === "ArrowDown" ? 0 : Math.floor((count - 1) / PER_ROW);
  return { tile: next, cell: Math.min(count - 1, row * PER_ROW + column) };
}

/** The tile of the nearest row above or below, nearest to a place in it. */
function neighbour(tiles: readonly Tile[], from: number, key: string, x: number): number {
  const here = tiles[from];
  if (!here) return 0;
  const down = key === "ArrowDown";
  let best = from;
  let distance = Infinity;
  tiles.forEach((tile, index) => {
    const rows = down ? tile.y - here.y : here.y - tile.y;
    if (rows <= 0) return;
    const far = rows * 10_000 + Math.max(0, tile.x - x, x - tile.x - tile.width);
    if (far < distance) [best, distance] = [index, far];
  });
  return best;
}

/** Devices of an agent by the session that holds them, free ones not counted. */
export function heldOn(agent: MapAgent, fleet: FleetView): { id: string; name: string; user: string; devices: number }[] {
  const found = new Map<number, number>();
  for (const device of agent.devices) {
    if ((fleet.device_used[device] ?? 0) > 0) {
      const holder = fleet.device_holder[device] ?? -1;
      found.set(holder, (found.get(holder) ?? 0) + 1);
    }
  }
  return [...found].map(([place, devices]) => {
    const holder = fleet.holders[place];
    return { id: holder?.id ?? "", name: holder ? holder.name || holder.id : "sessions of others", user: holder?.user ?? "", devices };
  });
}

/** Devices of an agent that get no new kernels, and why. */
export function faultsOf(agent: MapAgent, fleet: FleetView): { device: string; fault: string }[] {
  return agent.devices
    .map((device) => ({ device: fleet.device[device] ?? "", fault: fleet.device_fault[device] ?? "" }))
    .filter((one) => one.fault);
}

/** What a drain of an agent takes away: its free devices, and how many stay open for new sessions. */
export function impactOf(agent: MapAgent, fleet: FleetView): { free: number; left: number; total: number } {
  const stays = (at: number) => fleet.status[at] === "alive" && fleet.agents[at] !== agent.name;
  const left = fleet.device_agent.filter((at, device) => stays(at) && !fleet.device_fault[device]).length;
  const free = agent.devices.filter((device) => (fleet.device_used[device] ?? 0) === 0 && !fleet.device_fault[device]).length;
  return { free, left, total: fleet.device.length };
}

export interface Attention {
  name: string;
  status: string;
  problem: string;
  faults: [string, string][];
}

/** The agents that an operator should look at, and why. */
export function needingAttention(fleet: FleetView): Attention[] {
  const faults = new Map<number, [string, string][]>();
  (fleet.device_fault ?? []).forEach((fault, at) => {
    const agent = fleet.device_agent[at] ?? -1;
    if (fault) faults.set(agent, [...(faults.get(agent) ?? []), [fleet.device[at] ?? "", fault]]);
  });
  return fleet.agents.flatMap((name, at) => {
    const status = fleet.status[at] ?? "";
    const problem = fleet.failing?.[name] ?? (fleet.connected[at] ? "" : "not connected");
    return problem || faults.has(at) || status === "lost" || status === "suspect" ? [{ name, status, problem, faults: faults.get(at) ?? [] }] : [];
  });
}
