// The fleet after a change of it. Pure.
import type { DeviceHolder, FleetChangeView, FleetView } from "./wire.ts";

const UNKNOWN = -1;

/** The columns after a change; those that it leaves as they are, are the same arrays. */
export function changedFleet(before: FleetView, change: FleetChangeView): FleetView {
  const fleet = change.gone.length || change.joined.length ? regrouped(before, change) : before;
  const { agent_at: agents, device_at: devices } = change;
  return {
    ...fleet,
    ...holdersOf(fleet, change),
    as_of: change.as_of,
    hypernodes: change.hypernodes ?? fleet.hypernodes,
    hypernode_parent: change.hypernode_parent ?? fleet.hypernode_parent,
    status: withValues(fleet.status, agents, change.status),
    connected: withValues(fleet.connected, agents, change.connected),
    kernels: withValues(fleet.kernels, agents, change.kernels),
    hypernode: withValues(fleet.hypernode, agents, change.hypernode),
    device_used: withValues(fleet.device_used, devices, change.device_used),
    device_fault: withValues(fleet.device_fault, devices, change.device_fault),
    device_use: figures(fleet, change, fleet.device_use, change.device_use),
    device_memory: figures(fleet, change, fleet.device_memory, change.device_memory),
    device_temperature: figures(fleet, change, fleet.device_temperature, change.device_temperature),
    failing: Object.fromEntries(Object.entries({ ...fleet.failing, ...change.failing }).filter(([, text]) => text)),
    slots: change.slots ?? fleet.slots,
    used: change.used ?? fleet.used,
  };
}

function withValues<T>(column: T[], places: readonly number[], values: readonly T[]): T[] {
  if (!places.length) return column;
  const found = column.slice();
  places.forEach((place, at) => (found[place] = values[at] as T));
  return found;
}

function figures(fleet: FleetView, change: FleetChangeView, column: number[], values: readonly number[]): number[] {
  if (!change.measured) return [];
  return withValues(column.length ? column : fleet.device.map(() => UNKNOWN), change.figure_at, values);
}

/** Holders that a device names, by id, and the column of their places. */
function holdersOf(fleet: FleetView, change: FleetChangeView): Pick<FleetView, "holders" | "device_holder"> {
  if (!change.device_at.length && !change.gone.length) return fleet;
  const all = [...fleet.holders, ...change.holders];
  const places = change.device_holder.map((place) => (place >= 0 ? fleet.holders.length + place : place));
  const column = withValues(fleet.device_holder, change.device_at, places);
  const byId = new Map<string, DeviceHolder>();
  for (const place of column) {
    const holder = all[place];
    if (holder) byId.set(holder.id, holder);
  }
  const holders = [...byId.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
  const ranks = new Map(holders.map((holder, rank) => [holder.id, rank]));
  const table = all.map((holder) => ranks.get(holder.id) ?? UNKNOWN);
  return { holders, device_holder: column.map((place) => table[place] ?? place) };
}

/** The columns without the agents that have gone, and with those that joined, by name. */
function regrouped(fleet: FleetView, change: FleetChangeView): FleetView {
  const gone = new Set(change.gone);
  const known = fleet.agents.length;
  const names = [...fleet.agents, ...change.joined];
  const order = names.map((_, at) => at).filter((at) => at >= known || !gone.has(names[at] ?? ""));
  order.sort((one, other) => ((names[one] ?? "") < (names[other] ?? "") ? -1 : 1));
  const devicesOf: number[][] = names.map(() => []);
  fleet.device_agent.forEach((agent, device) => devicesOf[agent]?.push(device));
  let next = fleet.device.length;
  change.joined_devices.forEach((count, at) => {
    for (let left = count; left > 0; left -= 1) devicesOf[known + at]?.push(next++);
  });
  const devices = order.flatMap((at) => devicesOf[at] ?? []);
  const ofAgents = <T>(column: T[], first: T): T[] => order.map((at) => column[at] ?? first);
  const ofDevices = <T>(column: T[], joined: T[]): T[] => devices.map((at) => (at < fleet.device.length ? column[at] : joined[at - fleet.device.length]) as T);
  const empty = <T>(value: T): T[] => change.device.map(() => value);
  const measured = (column: number[]): number[] => (column.length ? ofDevices(column, empty(UNKNOWN)) : []);
  return {
    ...fleet,
    agents: order.map((at) => names[at] ?? ""),
    status: ofAgents(fleet.status, ""),
    connected: ofAgents(fleet.connected, false),
    kernels: ofAgents(fleet.kernels, 0),
    hypernode: ofAgents(fleet.hypernode, UNKNOWN),
    device: ofDevices(fleet.device, change.device),
    device_agent: order.flatMap((at, place) => (devicesOf[at] ?? []).map(() => place)),
    device_slot: ofDevices(fleet.device_slot, change.device_slot),
    device_units: ofDevices(fleet.device_units, change.device_units),
    device_used: ofDevices(fleet.device_used, empty(0)),
    device_holder: ofDevices(fleet.device_holder, empty(UNKNOWN)),
    device_fault: ofDevices(fleet.device_fault, empty("")),
    device_use: measured(fleet.device_use),
    device_memory: measured(fleet.device_memory),
    device_temperature: measured(fleet.device_temperature),
    failing: Object.fromEntries(Object.entries(fleet.failing).filter(([name]) => !gone.has(name))),
  };
}
