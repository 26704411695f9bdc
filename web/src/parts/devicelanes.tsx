// The devices of agents over time, some agents at a time.
import { call } from "../api.ts";
import { type DeviceLane, devicesText, deviceLanes, type Piece } from "../devicelanes.ts";
import { duration } from "../format.ts";
import { clusterTick, now } from "../live/store.ts";
import { href, query, setQuery } from "../router.ts";
import { isLate, marksOf } from "../timeline.ts";
import type { TimelineView } from "../wire.ts";
import { Empty, ProblemBox, Skeleton } from "./basics.tsx";
import { useResource } from "./resource.ts";

const AGENTS = 32;
// A hold that ended is not announced for each device.
const AGAIN_MS = 10_000;

export function DeviceLanes({ seconds, clock }: { seconds: number; clock: (at: number) => string }) {
  const agent = query.value.get("agent") ?? "";
  const cursor = query.value.get("cursor") ?? "";
  const found = useResource<TimelineView>(
    `device lanes ${seconds} ${agent} ${cursor}`,
    (signal) => {
      const chosen = new URLSearchParams({ since: new Date(Date.now() - seconds * 1000).toISOString(), limit: String(AGENTS) });
      // A little of the future, for bookings.
      chosen.set("until", new Date(Date.now() + seconds * 100).toISOString());
      if (agent) chosen.set("agent", agent);
      if (cursor) chosen.set("cursor", cursor);
      return call(`timeline?${chosen.toString()}`, { signal });
    },
    `${clusterTick.value} ${Math.floor(now.value / AGAIN_MS)}`,
  );
  const view = found.value;
  const lanes = view ? deviceLanes(view) : [];
  return (
    <>
      <div class="filters">
        <label>Agent <input value={agent} spellcheck={false} onChange={(event) => setQuery({ agent: event.currentTarget.value.trim(), cursor: "" })} /></label>
        <span class="legend-line">
          {[["held", "held"], ["booked", "booked"], ["kept", "kept for a waiting session"], ["closed", "no new kernels"]].map(([kind, words]) => <span key={kind}><span class={`key ${kind}`} /> {words}</span>)}
        </span>
      </div>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {!view ? (found.problem ? null : <Skeleton lines={12} />) : lanes.length ? <Lanes view={view} lanes={lanes} clock={clock} /> : (
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

function Lanes({ view, lanes, clock }: { view: TimelineView; lanes: readonly DeviceLane[]; clock: (at: number) => string }) {
  const from = Date.parse(view.since);
  const to = Date.parse(view.until);
  const share = (at: number) => `${(Math.min(1, Math.max(0, (at - from) / (to - from))) * 100).toFixed(3)}%`;
  return (
    <div class="gantt" role="table" aria-label="devices over time" tabIndex={0}>
      <div class="gantt-row" role="row">
        <span role="columnheader">Devices</span>
        <span class="gantt-axis" role="columnheader" aria-label="time">
          {marksOf(from, to).map((at) => <span key={at} class={isLate(at, from, to) ? "gantt-mark end" : "gantt-mark"} style={{ left: share(at) }}>{clock(at)}</span>)}
          <span class="gantt-now" style={{ left: share(now.value) }} />
        </span>
      </div>
      {lanes.map((lane) => (
        <div key={`${lane.agent} ${lane.devices[0]}`} class="gantt-row" role="row" data-agent={lane.agent}>
          <span role="rowheader" class="lane-name"><a href={href(`/cluster?agent=${encodeURIComponent(lane.agent)}`)}>{lane.agent}</a> <span class="muted">{devicesText(lane.devices)}</span></span>
          <span class="gantt-bars" role="cell">{lane.pieces.map((piece) => <Bar key={`${piece.kind} ${piece.from} ${piece.text}`} piece={piece} share={share} />)}</span>
        </div>
      ))}
    </div>
  );
}

function Bar({ piece, share }: { piece: Piece; share: (at: number) => string }) {
  // What goes on is drawn until now, not into the future.
  const to = piece.kind === "held" || piece.kind === "closed" ? Math.min(piece.to, now.value) : piece.to;
  const place = { left: share(piece.from), right: `calc(100% - ${share(to)})` };
  const words = `${piece.text}, ${duration(Math.max(0, to - piece.from) / 1000)}`;
  return piece.session ? (
    <a class={`gantt-bar ${piece.kind}`} href={href(`/sessions/${encodeURIComponent(piece.session)}`)} style={place} title={words}>{words}</a>
  ) : (
    <span class={`gantt-bar ${piece.kind}`} style={place} title={words}>{words}</span>
  );
}
