// The devices of agents over time, some agents at a time.
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api.ts";
import { type DeviceLane, devicesText, deviceLanes, type Piece, type Target, targetsOf } from "../devicelanes.ts";
import { duration, plural } from "../format.ts";
import { clusterTick, now } from "../live/store.ts";
import { href, query, setQuery } from "../router.ts";
import type { Window } from "../window.ts";
import type { TimelineView } from "../wire.ts";
import { TimeAxis } from "./axis.tsx";
import { Empty, ProblemBox, Skeleton } from "./basics.tsx";
import { FilterInput } from "./filter.tsx";
import { useResource } from "./resource.ts";

const AGENTS = 32;
// A hold that ended is not announced for each device.
const AGAIN_MS = 10_000;
// Sessions that the title of a target names.
const NAMED = 10;

export function DeviceLanes({ window }: { window: Window }) {
  const agent = query.value.get("agent") ?? "";
  const cursor = query.value.get("cursor") ?? "";
  const length = window.to - window.from;
  const found = useResource<TimelineView>(
    `device lanes ${window.live ? length : `${window.from} ${window.to}`} ${agent} ${cursor}`,
    (signal) => {
      const end = window.live ? Date.now() : window.to;
      const chosen = new URLSearchParams({ since: new Date(end - length).toISOString(), limit: String(AGENTS) });
      // A little of the future, for bookings.
      chosen.set("until", new Date(window.live ? end + length / 10 : end).toISOString());
      if (agent) chosen.set("agent", agent);
      if (cursor) chosen.set("cursor", cursor);
      return call(`timeline?${chosen.toString()}`, { signal });
    },
    window.to < now.value && !window.live ? 0 : `${clusterTick.value} ${Math.floor(now.value / AGAIN_MS)}`,
  );
  const view = found.value;
  const lanes = view ? deviceLanes(view) : [];
  return (
    <>
      <div class="filters">
        <label>Agent <FilterInput name="agent" /></label>
        <span class="legend-line">
          {[["held", "held"], ["booked", "booked"], ["kept", "kept for a waiting session"], ["closed", "no new kernels"]].map(([kind, words]) => <span key={kind}><span class={`key ${kind}`} /> {words}</span>)}
        </span>
      </div>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {lanes.length && lanes.every((lane) => !lane.pieces.length) ? <p class="muted">None of these devices was held, booked or kept in this time.</p> : null}
      {!view ? (found.problem ? null : <Skeleton lines={12} />) : lanes.length ? <Lanes view={view} lanes={lanes} /> : (
        <Empty title={agent ? "This agent has no devices." : "No agent here has devices. Sessions over time are on the other view."} command="sokovan agent ls" />
      )}
      {view?.cut ? <p class="muted">There are more holds than are shown: choose a shorter time, or one agent.</p> : null}
      {view && (cursor || view.next) ? (
        <div class="actions">
          <button type="button" disabled={!cursor} onClick={() => setQuery({ cursor: "" })}>First agents</button>
          <button type="button" disabled={!view.next} onClick={() => setQuery({ cursor: view.next ?? "" })}>More agents</button>
        </div>
      ) : null}
    </>
  );
}

function Lanes({ view, lanes }: { view: TimelineView; lanes: readonly DeviceLane[] }) {
  const table = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  // The piece whose target shows several sessions.
  const [opened, setOpened] = useState("");
  useEffect(() => {
    const line = table.current?.querySelector(".gantt-axis");
    if (!line) return undefined;
    const watch = new ResizeObserver(() => setWidth(line.clientWidth));
    watch.observe(line);
    return () => watch.disconnect();
  }, []);
  const from = Date.parse(view.since);
  const to = Date.parse(view.until);
  const share = (at: number) => Math.min(1, Math.max(0, (at - from) / (to - from)));
  return (
    <div class="gantt" role="table" aria-label="devices over time" tabIndex={0} ref={table}>
      <div class="gantt-row" role="row">
        <span role="columnheader">Devices</span>
        <TimeAxis from={from} to={to} />
      </div>
      {lanes.map((lane) => {
        const drawn = lane.pieces.map(asDrawn);
        const targets = width ? targetsOf(drawn, share, width) : [];
        const keyOf = (piece: Piece) => `${lane.agent} ${lane.devices[0]} ${piece.session} ${piece.from}`;
        const shown = opened ? targets.find((one) => one.pieces.length > 1 && one.pieces.some((piece) => keyOf(piece) === opened)) : undefined;
        return (
          <Fragment key={`${lane.agent} ${lane.devices[0]}`}>
            <div class="gantt-row" role="row" data-agent={lane.agent}>
              <span role="rowheader" class="lane-name"><a href={href(`/cluster?agent=${encodeURIComponent(lane.agent)}`)}>{lane.agent}</a> <span class="muted">{devicesText(lane.devices)}</span></span>
              <span class="gantt-bars" role="cell">
                {drawn.map((piece) => <Bar key={`${piece.kind} ${piece.from} ${piece.text}`} piece={piece} share={share} />)}
                {targets.map((target) => {
                  const key = keyOf(target.pieces[0] as Piece);
                  return <Hit key={key} target={target} open={target === shown} onToggle={() => setOpened(target === shown ? "" : key)} />;
                })}
              </span>
            </div>
            {shown ? (
              <div class="gantt-row several" role="row">
                <span role="rowheader" class="lane-name muted">{plural(shown.pieces.length, "session")}</span>
                <span role="cell" class="gantt-several">{shown.pieces.map((piece) => <a key={keyOf(piece)} href={addressOf(piece)}>{wordsOf(piece)}</a>)}</span>
              </div>
            ) : null}
          </Fragment>
        );
      })}
    </div>
  );
}

/** What goes on is drawn until now, not into the future. */
function asDrawn(piece: Piece): Piece {
  return piece.kind === "held" || piece.kind === "closed" ? { ...piece, to: Math.min(piece.to, now.value) } : piece;
}

function wordsOf(piece: Piece): string {
  return `${piece.text}, ${duration(Math.max(0, piece.to - piece.from) / 1000)}`;
}

function addressOf(piece: Piece): string {
  return href(`/sessions/${encodeURIComponent(piece.session)}`);
}

function percent(part: number): string {
  return `${(part * 100).toFixed(3)}%`;
}

/** A bar; what has a session is named by its target. */
function Bar({ piece, share }: { piece: Piece; share: (at: number) => number }) {
  const place = { left: percent(share(piece.from)), right: `calc(100% - ${percent(share(piece.to))})` };
  const words = wordsOf(piece);
  return <span class={`gantt-bar ${piece.kind}`} style={place} title={words} aria-hidden={piece.session ? "true" : undefined}>{words}</span>;
}

/** What is clicked above bars: the way to their session, or a list of their sessions. */
function Hit({ target, open, onToggle }: { target: Target; open: boolean; onToggle: () => void }) {
  const place = { left: percent(target.from), width: percent(target.to - target.from) };
  const [only] = target.pieces;
  if (only && target.pieces.length === 1) return <a class="gantt-target" href={addressOf(only)} style={place} title={wordsOf(only)} aria-label={wordsOf(only)} />;
  const words = plural(target.pieces.length, "session");
  const names = target.pieces.slice(0, NAMED).map(wordsOf).join("\n");
  return (
    <button
      type="button" class="gantt-target" style={place} aria-expanded={open} aria-label={`${words}: ${only?.text ?? ""} and others`} onClick={onToggle}
      title={`${words}:\n${names}${target.pieces.length > NAMED ? "\n…" : ""}`}
    />
  );
}
