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
  y: number;
  used: number;
  total: number;
}

export interface MapLayout {
  tiles: Tile[];
  blocks: Block[];
  height: number;
}

export const CELL = 11;
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

export function layout(agents: readonly MapAgent[], fleet: FleetView, width: number): MapLayout {
  const groups = new Map<string, MapAgent[]>();
  for (const agent of agents) {
    const group = groups.get(agent.hypernode);
    if (group) group.push(agent);
    else groups.set(agent.hypernode, [agent]);
  }
  const tiles: Tile[] = [];
  const blocks: Block[] = [];
  let y = 0;
  for (const name of [...groups.keys()].sort(byName)) {
    const block: Block = { name: name || (groups.size > 1 ? "in no HyperNode" : "agents"), y, used: 0, total: 0 };
    blocks.push(block);
    y += LABEL;
    let x = 0;
    let tallest = 0;
    for (const agent of groups.get(name) ?? []) {
      // An agent without devices is one cell.
      const cells = Math.max(1, agent.devices.length);
      const size = { width: Math.min(PER_ROW, cells) * CELL + 4, height: Math.ceil(cells / PER_ROW) * CELL + 4 };
      if (x > 0 && x + size.width > width) {
        x = 0;
        y += tallest + GAP;
        tallest = 0;
      }
      tiles.push({ agent, x, y, ...size });
      block.total += agent.devices.length;
      block.used += agent.devices.filter((device) => (fleet.device_used[device] ?? 0) > 0).length;
      x += size.width + GAP;
      tallest = Math.max(tallest, size.height);
    }
    y += tallest + 2 * GAP;
  }
  return { tiles, blocks, height: Math.max(y, 1) };
}

export function tileAt(tiles: readonly Tile[], x: number, y: number): number {
  return tiles.findIndex((tile) => x >= tile.x && x < tile.x + tile.width && y >= tile.y && y < tile.y + tile.height);
}

/** The tile that an arrow key leads to. */
export function neighbour(tiles: readonly Tile[], from: number, key: string): number {
  const here = tiles[from];
  if (!here) return 0;
  if (key === "ArrowRight") return Math.min(tiles.length - 1, from + 1);
  if (key === "ArrowLeft") return Math.max(0, from - 1);
  const down = key === "ArrowDown";
  let best = from;
  let distance = Infinity;
  tiles.forEach((tile, index) => {
    const rows = down ? tile.y - here.y : here.y - tile.y;
    if (rows <= 0) return;
    const far = rows * 10_000 + Math.abs(tile.x - here.x);
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
  const isOpen = (at: number) => fleet.status[at] === "alive" && fleet.agents[at] !== agent.name;
  const left = fleet.device_agent.filter((at, device) => isOpen(at) && !fleet.device_fault[device]).length;
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
