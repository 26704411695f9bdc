// Sessions or devices over time: how long each session waited and held its slots, or who held each device; bookings and drains.
import { useState } from "preact/hooks";
import { all } from "../api.ts";
import { timelineCommand } from "../commands.ts";
import { duration, plural, printable } from "../format.ts";
import { cut, loaded, now, sessions, untoldTick } from "../live/store.ts";
import { CopyCommand, Empty, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { TimeAxis } from "../parts/axis.tsx";
import { StepChart } from "../parts/chart.tsx";
import { DeviceLanes } from "../parts/devicelanes.tsx";
import { useResource } from "../parts/resource.ts";
import { href, query, setQuery } from "../router.ts";
import { matches, rowOf } from "../rows.ts";
import { type Bar, barsIn, heldOver } from "../timeline.ts";
import { fromLocal, localText, movedBy, SPANS, timeText, type Window, windowOf } from "../window.ts";
import type { BookingBody, SessionRowView as ListedSession } from "../wire.ts";

const SHOWN_MAX = 200;
const ROWS_MAX = 20_000;

export function TimelinePage() {
  const byDevice = query.value.get("view") === "devices";
  const window = windowOf(query.value, now.value);
  return (
    <div class="timeline">
      <div class="bar">
        <h1>Timeline</h1>
        <div class="chips" role="group" aria-label="view">
          <button type="button" aria-pressed={!byDevice} onClick={() => setQuery({ view: "", cursor: "", agent: "" })}>sessions</button>
          <button type="button" aria-pressed={byDevice} onClick={() => setQuery({ view: "devices", q: "" })}>devices</button>
        </div>
        {byDevice ? null : <input type="search" aria-label="filter sessions" placeholder="filter: name, user, queue, reason" value={query.value.get("q") ?? ""} onInput={(event) => setQuery({ q: event.currentTarget.value })} />}
        <span class="spring" />
        <CopyCommand command={timelineCommand(query.value, window)} />
      </div>
      <WindowBar window={window} />
      {window.problem ? (
        <div class="problem" role="alert">
          <p class="problem-title">The address has no time to show: {printable(window.problem)}</p>
          <p>This is the last {window.span}. Choose another time above.</p>
        </div>
      ) : null}
      {byDevice ? <DeviceLanes window={window} /> : <SessionBars window={window} />}
    </div>
  );
}

/** Which time is shown: the last so long, or between two times; earlier and later by its length. */
function WindowBar({ window }: { window: Window }) {
  const choose = (changes: Record<string, string>) => setQuery({ cursor: "", ...changes });
  const chosen = (name: "from" | "to", other: "from" | "to") => (text: string) => choose({ span: "", [name]: text, [other]: timeText(window[other]) });
  return (
    <div class="bar window" role="group" aria-label="time">
      <div class="chips" role="group" aria-label="span">
        {SPANS.map(([name]) => <button key={name} type="button" aria-pressed={window.live && name === window.span} onClick={() => choose({ span: name, from: "", to: "" })}>{name}</button>)}
      </div>
      <button type="button" onClick={() => choose(movedBy(window, -1, now.value))}>← Earlier</button>
      <button type="button" disabled={window.live} onClick={() => choose(movedBy(window, 1, now.value))}>Later →</button>
      <button type="button" disabled={window.live} onClick={() => choose({ span: window.span, from: "", to: "" })}>Now</button>
      <TimeInput label="from" at={window.from} choose={chosen("from", "to")} />
      <TimeInput label="to" at={window.to} choose={chosen("to", "from")} />
    </div>
  );
}

/** A time that is chosen on Enter, or when the field is left: while it is typed it is another one, or none. */
function TimeInput({ label, at, choose }: { label: string; at: number; choose: (text: string) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const commit = () => {
    const text = typed === null ? "" : fromLocal(typed);
    setTyped(null);
    if (text && typed !== localText(at)) choose(text);
  };
  return (
    <label>
      {label}{" "}
      <input
        type="datetime-local" value={typed ?? localText(at)} min="1970-01-01T00:00" max="9999-12-31T00:00"
        onInput={(event) => setTyped(event.currentTarget.value)}
        onBlur={commit}
        onKeyDown={(event) => event.key === "Enter" && commit()}
      />
    </label>
  );
}

function SessionBars({ window }: { window: Window }) {
  const bookings = useResource<BookingBody[]>("bookings", (signal) => all("bookings", signal), untoldTick.value);
  // Those that the list no longer has: it was cut.
  const times = [`since=${encodeURIComponent(timeText(window.from))}`, ...(window.live ? [] : [`until=${encodeURIComponent(timeText(window.to))}`])];
  const older = useResource<ListedSession[]>(
    `timeline ${window.live ? window.span : times.join(" ")} ${cut.value}`,
    (signal) => (cut.value ? all(`sessions/rows?${times.join("&")}`, signal, ROWS_MAX) : Promise.resolve([])),
    window.live ? Math.floor(now.value / 60_000) : 0,
  );
  // The sum of the newest sessions alone would be a wrong figure.
  if (!loaded.value || (cut.value && !older.value && !older.problem)) return <Skeleton lines={12} />;
  const text = query.value.get("q") ?? "";
  const { from } = window;
  // A little of the future, for bookings.
  const to = window.live ? window.to + (window.to - window.from) / 10 : window.to;
  // Of what is still to come nothing is known but bookings.
  const knownUntil = Math.min(now.value, to);
  const known = new Map((older.value ?? []).map((one) => [one.id, rowOf(one)]));
  for (const row of sessions.value) known.set(row.id, row);
  const rows = [...known.values()].filter((row) => matches(row, text));
  const bars = knownUntil > from ? barsIn(rows, from, knownUntil) : [];
  const booked = (bookings.value ?? []).filter((one) => Date.parse(one.starts_at) < to && Date.parse(one.ends_at) > from);
  const share = (at: number) => `${(Math.min(1, Math.max(0, (at - from) / (to - from))) * 100).toFixed(3)}%`;
  return (
    <>
      {(older.value?.length ?? 0) >= ROWS_MAX ? <p class="muted">There are more than {ROWS_MAX} sessions in this time, of which the newest are here: choose a shorter one.</p> : null}
      {older.problem ? <ProblemBox problem={older.problem} retry={older.retry} /> : null}
      {bars.length ? (
        <div class="gantt-chart">
          <div style={{ width: share(knownUntil) }}>
            <StepChart label="devices held" steps={heldOver(rows, from, knownUntil)} from={from} to={knownUntil} total={0} end={to > now.value ? "now" : "at the end"} />
          </div>
        </div>
      ) : null}
      {bars.length || booked.length ? (
        <div class="gantt" role="table" aria-label="sessions over time" tabIndex={0}>
          <div class="gantt-row" role="row">
            <span role="columnheader">{plural(bars.length, "session")}</span>
            <TimeAxis from={from} to={to} />
          </div>
          {booked.map((one) => (
            <div key={one.name} class="gantt-row" role="row">
              <span role="rowheader" class="lane-name">{one.kind ?? "booking"} <a href={href(`/bookings/${encodeURIComponent(one.name)}`)}>{one.name}</a></span>
              <span class="gantt-bars" role="cell">
                <span class="gantt-bar booked" style={{ left: share(Date.parse(one.starts_at)), right: `calc(100% - ${share(Date.parse(one.ends_at))})` }} title={`${one.starts_at} to ${one.ends_at}`}>booked</span>
              </span>
            </div>
          ))}
          {bars.slice(0, SHOWN_MAX).map((bar) => <Line key={bar.row.id} bar={bar} share={share} />)}
          {bars.length > SHOWN_MAX ? <p class="muted">{plural(bars.length - SHOWN_MAX, "more session")}; filter, or choose a shorter span.</p> : null}
        </div>
      ) : (
        <Empty title="No session ran or waited in this time." command={window.live ? "sokovan run -- hostname" : timelineCommand(query.value, window)} />
      )}
    </>
  );
}

function Line({ bar, share }: { bar: Bar; share: (at: number) => string }) {
  const { row } = bar;
  const end = bar.ended ?? now.value;
  const waitedUntil = bar.began ?? end;
  const waited = duration((waitedUntil - bar.submitted) / 1000);
  const ran = bar.began === null ? "" : duration((end - bar.began) / 1000);
  const piece = (kind: string, left: number, right: number, words: string) => (
    <span class={`gantt-bar ${kind}`} style={{ left: share(left), right: `calc(100% - ${share(right)})` }} title={words}>{words}</span>
  );
  return (
    <div class="gantt-row" role="row" data-session={row.name}>
      <span role="rowheader" class="lane-name"><State status={row.status} result={row.result} /> <a href={href(`/sessions/${encodeURIComponent(row.id)}`)}>{row.name || row.id}</a></span>
      <span class="gantt-bars" role="cell">
        {piece("waited", bar.submitted, waitedUntil, `waited ${waited}`)}
        {bar.began === null ? null : piece("held", bar.began, end, `${row.devices ? `${row.devices} GPU ` : ""}${ran}`)}
      </span>
    </div>
  );
}
