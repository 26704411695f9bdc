// What the palette finds. Pure.

export interface Target {
  kind: string;
  name: string;
  to: string;
}

const SHOWN_MAX = 12;

/** Targets whose kind and name contain every word: those that begin with the text first. */
export function targetsFor(known: readonly Target[], text: string): Target[] {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/);
  const first: Target[] = [];
  const rest: Target[] = [];
  for (const target of known) {
    const name = target.name.toLowerCase();
    if (!words.every((word) => `${target.kind} ${name}`.includes(word))) continue;
    if (name.startsWith(wanted)) first.push(target);
    else if (rest.length < SHOWN_MAX) rest.push(target);
    if (first.length >= SHOWN_MAX) break;
  }
  return [...first, ...rest].slice(0, SHOWN_MAX);
}
