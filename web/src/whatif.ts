// The form of changes to try out, as a request and as a command line. Pure.
import { unfinishedNumber } from "./draft.ts";
import type { WhatIfBody } from "./wire.ts";

export interface Changes {
  drain: string;
  like: string;
  count: string;
  weights: readonly (readonly [string, string])[];
  /** The scaling group; empty for the default one. */
  group: string;
}

export const NONE: Changes = { drain: "", like: "", count: "", weights: [], group: "" };

/** The changes that an address asks for: `weight` as NAME=NUMBER, agents to `drain`, machines `like` one and their `count`, and a `group`. */
export function asked(query: URLSearchParams): Changes {
  const weights = query.getAll("weight").filter((one) => one.includes("=")).map((one) => [one.slice(0, one.lastIndexOf("=")), one.slice(one.lastIndexOf("=") + 1)] as const);
  const text = (name: string) => query.get(name) ?? "";
  return { drain: query.getAll("drain").join(", "), like: text("like"), count: text("count"), weights: weights.filter(([name]) => name), group: text("group") };
}

/** The address of these changes, such as `?drain=a1&weight=q=3`; empty without any. */
export function addressOf(changes: Changes): string {
  const query = new URLSearchParams();
  for (const one of agents(changes.drain)) query.append("drain", one);
  for (const name of ["like", "count", "group"] as const) if (changes[name].trim()) query.set(name, changes[name].trim());
  for (const [name, value] of changes.weights) if (value.trim()) query.append("weight", `${name}=${value.trim()}`);
  return query.size ? `?${query.toString()}` : "";
}

function agents(text: string): string[] {
  return text.split(/[,\s]+/).filter(Boolean);
}

/** What is wrong with the form; empty if nothing is. */
export function unfinishedChanges(changes: Changes): string {
  const numbers = [["How many to add", changes.count] as const, ...changes.weights.map(([name, value]) => [`Weight of ${name}`, value] as const)];
  const problem = numbers.map(([label, value]) => unfinishedNumber(label, value, 1)).find(Boolean);
  if (problem || Boolean(changes.like.trim()) === Boolean(changes.count.trim())) return problem ?? "";
  return changes.like.trim() ? "Say how many machines to add." : "Name an agent that the new machines are like.";
}

export function changesOf(changes: Changes): WhatIfBody {
  const count = Math.trunc(Number(changes.count)) || 0;
  const like = changes.like.trim();
  const weights = changes.weights.map(([name, value]) => [name, Math.trunc(Number(value))] as const).filter(([, value]) => value > 0);
  return {
    drain: agents(changes.drain),
    weights: Object.fromEntries(weights),
    add: like && count > 0 ? { [like]: count } : {},
    ...(changes.group ? { scaling_group: changes.group } : {}),
  };
}

export function whatIfLine(body: WhatIfBody): string[] {
  const pairs = (name: string, values: Record<string, number> | undefined) => Object.entries(values ?? {}).flatMap(([key, value]) => [name, `${key}=${value}`]);
  return ["sokovan", "what-if", ...(body.drain ?? []).flatMap((one) => ["--drain", one]), ...pairs("--weight", body.weights), ...pairs("--add", body.add), ...(body.scaling_group ? ["--scaling-group", body.scaling_group] : [])];
}
