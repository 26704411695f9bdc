// Sessions or devices over time: how long each session waited and held its slots, or who held each device; bookings and drains.
import { all } from "../api.ts";
import { timelineCommand } from "../commands.ts";
import { duration, plural } from "../format.ts";
import { cut, loaded, now, sessions, untoldTick } from "../live/store.ts";
import { CopyCommand, Empty, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { TimeAxis } from "../parts/axis.tsx";
import { StepChart } from "../parts/chart.tsx";
import { DeviceLanes } from "../parts/devicelanes.tsx";
import { useResource } from "../parts/resource.ts";
import { href, query, setQuery } from "../router.ts";
import { matches, rowOf } from "../rows.ts";
import { type Bar, barsIn, heldOver } from "../timeline.ts";
import type { BookingBody, SessionRowView as ListedSession } from "../wire.ts";

const SPANS = [["15m", 900], ["1h", 3_600], ["6h", 21_600], ["24h", 86_400], ["7d", 604_800]] as const;
const SHOWN_MAX = 200;
const ROWS_MAX = 20_000;

export function TimelinePage() {
  const byDevice = query.value.get("view") === "devices";
  const span = SPANS.find(([name]) => name === query.value.get("span")) ?? SPANS[1];
  return (
    <div class="timeline">
      <div class="bar">
        <h1>Timeline</h1>
        <div class="chips" role="group" aria-label="view">
          <button type="button" aria-pressed={!byDevice} onClick={() => setQuery({ view: "", cursor: "", agent: "" })}>sessions</button>
          <button type="button" aria-pressed={byDevice} onClick={() => setQuery({ view: "devices", q: "" })}>devices</button>
        </div>
        <div class="chips" role="group" aria-label="span">
          {SPANS.map(([name]) => <button key={name} type="button" aria-pressed={name === span[0]} onClick={() => setQuery({ span: name })}>{name}</button>)}
        </div>
        {byDevice ? null : <input type="search" aria-label="filter sessions" placeholder="filter: name, user, queue, reason" value={query.value.get("q") ?? ""} onInput={(event) => setQuery({ q: event.currentTarget.value })} />}
        <span class="spring" />
        <CopyCommand command={timelineCommand(query.value, span[0])} />
      </div>
      {byDevice ? <DeviceLanes seconds={span[1]} clock={(at) => clock(at, span[1])} /> : <SessionBars span={span} />}
    </div>
  );
}

function SessionBars({ span }: { span: (typeof SPANS)[number] }) {
  const bookings = useResource<BookingBody[]>("bookings", (signal) => all("bookings", signal), untoldTick.value);
  // Those that the list no longer has: it was cut.
  const since = new Date(now.value - span[1] * 1000).toISOString();
  const older = useResource<ListedSession[]>(
    `timeline ${span[0]} ${cut.value}`, (signal) => (cut.value ? all(`sessions/rows?since=${encodeURIComponent(since)}`, signal, ROWS_MAX) : Promise.resolve([])),
    Math.floor(now.value / 60_000),
  );
  // The sum of the newest sessions alone would be a wrong figure.
  if (!loaded.value || (cut.value && !older.value && !older.problem)) return <Skeleton lines={12} />;
  const text = query.value.get("q") ?? "";
  // A little of the future, for bookings.
  const to = now.value + span[1] * 100;
  const from = now.value - span[1] * 1000;
  const known = new Map((older.value ?? []).map((one) => [one.id, rowOf(one)]));
  for (const row of sessions.value) known.set(row.id, row);
  const rows = [...known.values()].filter((row) => matches(row, text));
  const bars = barsIn(rows, from, now.value);
  const booked = (bookings.value ?? []).filter((one) => Date.parse(one.starts_at) < to && Date.parse(one.ends_at) > from);
  const share = (at: number) => `${(Math.min(1, Math.max(0, (at - from) / (to - from))) * 100).toFixed(3)}%`;
  return (
    <>
      {older.problem ? <ProblemBox problem={older.problem} retry={older.retry} /> : null}
      {bars.length ? (
        <div class="gantt-chart">
          <div style={{ width: share(now.value) }}>
            <StepChart label="devices held" steps={heldOver(rows, from, now.value)} from={from} to={now.value} total={0} />
          </div>
        </div>
      ) : null}
      {bars.length || booked.length ? (
        <div class="gantt" role="table" aria-label="sessions over time" tabIndex={0}>
          <div class="gantt-row" role="row">
            <span role="columnheader">{plural(bars.length, "session")}</span>
            <TimeAxis from={from} to={to} clock={(at) => clock(at, span[1])} />
          </div>
          {booked.map((one) => (
            <div key={one.name} class="gantt-row" role="row">
              <span role="rowheader" class="lane-name">booking {one.name}</span>
              <span class="gantt-bars" role="cell">
                <span class="gantt-bar booked" style={{ left: share(Date.parse(one.starts_at)), right: `calc(100% - ${share(Date.parse(one.ends_at))})` }} title={`${one.starts_at} to ${one.ends_at}`}>booked</span>
              </span>
            </div>
          ))}
          {bars.slice(0, SHOWN_MAX).map((bar) => <Line key={bar.row.id} bar={bar} share={share} />)}
          {bars.length > SHOWN_MAX ? <p class="muted">{plural(bars.length - SHOWN_MAX, "more session")}; filter, or choose a shorter span.</p> : null}
        </div>
      ) : (
        <Empty title="No session ran or waited in this time." command="sokovan run -- hostname" />
      )}
    </>
  );
}

function clock(at: number, seconds: number): string {
  const time = new Date(at);
  return seconds > 86_400 ? time.toISOString().slice(5, 10) : time.toTimeString().slice(0, 5);
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
