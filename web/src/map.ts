// Where agents are on the map. Pure: the page draws what this lays out.
import type { AgentView, TopologyNode } from "./wire.ts";
import { deviceSlot } from "./format.ts";

export interface Tile {
  agent: AgentView;
  x: number;
  y: number;
  width: number;
  height: number;
  cells: number;
  used: number;
}

export interface Block {
  name: string;
  x: number;
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
const PER_ROW = 8;
const GAP = 8;
const LABEL = 22;
// An agent with more devices than this shows each cell for several of them.
const CELLS_MAX = 64;

/** The HyperNode that each agent is directly in; agents outside the tree are not named. */
export function parentsOf(tree: readonly TopologyNode[]): Map<string, string> {
  return new Map(tree.filter((node) => node.kind === "agent").map((node) => [node.name, node.parent]));
}

/** Cells of an agent, and how many of them are in use: its devices, or its processor cores. */
export function cellsOf(agent: AgentView): { cells: number; used: number } {
  const slot = deviceSlot(agent.slots);
  const [total, used] = slot ? [agent.slots[slot] ?? 0, agent.used[slot] ?? 0] : [agent.slots["cpu"] ?? 0, agent.used["cpu"] ?? 0];
  const unit = slot.endsWith(".device") ? 1 : 1000;
  const whole = Math.max(1, Math.ceil(total / unit));
  const cells = Math.min(CELLS_MAX, whole);
  return { cells, used: Math.min(cells, Math.ceil((used / unit / whole) * cells)) };
}

export function layout(agents: readonly AgentView[], parents: ReadonlyMap<string, string>, width: number): MapLayout {
  const groups = new Map<string, AgentView[]>();
  for (const agent of agents) {
    const name = parents.get(agent.id) ?? "";
    const group = groups.get(name);
    if (group) group.push(agent);
    else groups.set(name, [agent]);
  }
  const tiles: Tile[] = [];
  const blocks: Block[] = [];
  let y = 0;
  for (const name of [...groups.keys()].sort((one, other) => (one === "" ? 1 : other === "" ? -1 : one.localeCompare(other, "en", { numeric: true })))) {
    const members = groups.get(name) ?? [];
    const block: Block = { name: name || (groups.size > 1 ? "in no HyperNode" : "agents"), x: 0, y, used: 0, total: 0 };
    blocks.push(block);
    y += LABEL;
    let x = 0;
    let tallest = 0;
    for (const agent of members) {
      const { cells, used } = cellsOf(agent);
      const columns = Math.min(PER_ROW, cells);
      const size = { width: columns * CELL + 4, height: Math.ceil(cells / PER_ROW) * CELL + 4 };
      if (x > 0 && x + size.width > width) {
        x = 0;
        y += tallest + GAP;
        tallest = 0;
      }
      tiles.push({ agent, x, y, ...size, cells, used });
      block.used += used;
      block.total += cells;
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
