// The form of changes to try out, as a request and as a command line. Pure.
import type { WhatIfBody } from "./wire.ts";

export interface Changes {
  drain: string;
  like: string;
  count: string;
  weights: readonly (readonly [string, string])[];
}

export const NONE: Changes = { drain: "", like: "", count: "", weights: [] };

/** The changes that an address asks for: `weight` as NAME=NUMBER, and agents to `drain`. */
export function asked(query: URLSearchParams): Changes {
  const weights = query.getAll("weight").map((one) => [one.slice(0, one.lastIndexOf("=")), one.slice(one.lastIndexOf("=") + 1)] as const);
  return { ...NONE, drain: query.getAll("drain").join(", "), weights: weights.filter(([name]) => name) };
}

export function changesOf(changes: Changes): WhatIfBody {
  const count = Math.trunc(Number(changes.count)) || 0;
  const like = changes.like.trim();
  const weights = changes.weights.map(([name, value]) => [name, Math.trunc(Number(value))] as const).filter(([, value]) => value > 0);
  return {
    drain: changes.drain.split(/[,\s]+/).filter(Boolean),
    weights: Object.fromEntries(weights),
    add: like && count > 0 ? { [like]: count } : {},
  };
}

export function whatIfLine(body: WhatIfBody): string[] {
  const pairs = (name: string, values: Record<string, number> | undefined) => Object.entries(values ?? {}).flatMap(([key, value]) => [name, `${key}=${value}`]);
  return ["sokovan", "what-if", ...(body.drain ?? []).flatMap((one) => ["--drain", one]), ...pairs("--weight", body.weights), ...pairs("--add", body.add)];
}
