// The time that a timeline shows: the last span, or one between two times of the address. Pure.

export const SPANS = [["15m", 900], ["1h", 3_600], ["6h", 21_600], ["24h", 86_400], ["7d", 604_800]] as const;
const DEFAULT_SPAN = SPANS[1];
const TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d.*)?$/;
// The last millisecond of which dates can be written with four digits of the year.
const LAST_MS = Date.UTC(9999, 11, 31);

/** A time that is shown: the last span, which moves with the clock, or one between two times. */
export interface Window {
  from: number;
  to: number;
  /** Whether it ends now, and goes on. */
  live: boolean;
  /** The name of its length, if that has one. */
  span: string;
  /** What is wrong with the times of the address; then it is the last hour. */
  problem: string;
}

/** The time that an address asks for: `span`, or `from` and `to`, of which one may be missing. */
export function windowOf(query: URLSearchParams, now: number): Window {
  const [name, seconds] = SPANS.find(([one]) => one === query.get("span")) ?? DEFAULT_SPAN;
  const given = { from: query.get("from"), to: query.get("to") };
  const live = (problem: string) => ({ from: now - seconds * 1000, to: now, live: true, span: name, problem });
  if (!given.from && !given.to) return live("");
  const times: number[] = [];
  for (const one of ["from", "to"] as const) {
    const text = given[one];
    const at = text && TIME.test(text) ? Date.parse(text) : NaN;
    if (text && !(at >= 0 && at <= LAST_MS)) return live(`"${one}" is not a time: ${text}`);
    times.push(at);
  }
  const [begin = NaN, end = NaN] = times;
  const to = given.to ? end : now;
  const from = given.from ? begin : to - seconds * 1000;
  if (!(from < to)) return live(given.to ? "\"from\" is not before \"to\"" : "\"from\" is still to come");
  if (from < 0) return live("the time begins before 1970");
  const length = (to - from) / 1000;
  return { from, to, live: false, span: SPANS.find(([, one]) => one === length)?.[0] ?? "", problem: "" };
}

/** The changes of an address that move a window by its length; one that reaches now is shown live again, if it has a name. */
export function movedBy(window: Window, lengths: number, now: number): Record<string, string> {
  const length = window.to - window.from;
  const to = window.to + lengths * length;
  if (to >= now && lengths > 0 && window.span) return { span: window.span, from: "", to: "", cursor: "" };
  return { from: timeText(Math.max(0, to - length)), to: timeText(Math.max(length, to)), span: "", cursor: "" };
}

/** A time of an address, to the second. */
export function timeText(at: number): string {
  return new Date(Math.round(at / 1000) * 1000).toISOString().replace(".000Z", "Z");
}

/** A time as a field for local times has it, and back; an empty one is none. */
export function localText(at: number): string {
  const time = new Date(at);
  return new Date(at - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function fromLocal(text: string): string {
  const at = text ? new Date(text).getTime() : NaN;
  return at >= 0 && at <= LAST_MS ? timeText(at) : "";
}

const DAY_MS = 86_400_000;

/** A mark of an axis: a time of the day, or the day that begins there if the axis is longer than one. */
export function markText(at: number, length: number): string {
  const [day = "", time = ""] = localText(at).split("T");
  return length > DAY_MS && time === "00:00" ? day.slice(5) : time;
}
