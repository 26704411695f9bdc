// Bookings and maintenance of agents, and for administrators the sessions that leave for one, and those that did.
import type { ComponentChildren } from "preact";
import { all, call } from "../api.ts";
import { afterwards, agentsText, ownersText, partText, whenText } from "../bookings.ts";
import { duration, plural, shellWords } from "../format.ts";
import { clusterTick, now, untoldTick } from "../live/store.ts";
import { Age, CopyCommand, Empty, Facts, ProblemBox, Skeleton } from "../parts/basics.tsx";
import { useResource } from "../parts/resource.ts";
import { href } from "../router.ts";
import { me } from "../session.ts";
import { localText } from "../window.ts";
import type { BookingBody, BookingEvictionsView, BookingEvictionView } from "../wire.ts";

const CREATE = "sokovan booking create NAME --from 30m --for 2h --agent AGENT --user USER";
// Agents that have a link; the timeline has them all.
const AGENTS_MAX = 64;
// Sessions of each kind that the server lists.
const SHOWN_MAX = 1_000;

export function BookingsPage() {
  const found = useResource<BookingBody[]>("bookings", (signal) => all("bookings", signal), untoldTick.value);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={8} />;
  const listed = [...found.value].sort((one, other) => Date.parse(one.starts_at) - Date.parse(other.starts_at));
  return (
    <div class="bookings">
      <div class="bar">
        <h1>Bookings</h1>
        <span class="spring" />
        <CopyCommand command="sokovan booking ls" />
      </div>
      {listed.length ? (
        <div class="table-box" tabIndex={0} role="region" aria-label="bookings">
          <table>
            <thead><tr><th>Name</th><th>Kind</th><th>When</th><th>From</th><th>To</th><th>Agents</th><th>For</th></tr></thead>
            <tbody>
              {listed.map((one) => (
                <tr key={one.name}>
                  <th scope="row"><a href={href(`/bookings/${encodeURIComponent(one.name)}`)}>{one.name}</a></th>
                  <td>{one.kind}</td>
                  <td>{whenText(one, now.value)}</td>
                  <td><Time at={one.starts_at} /></td>
                  <td><Time at={one.ends_at} /></td>
                  <td>{agentsText(one)}</td>
                  <td>{ownersText(one) || "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title="No agents are booked." command={me.value?.role === "admin" ? CREATE : "sokovan booking ls"} />
      )}
    </div>
  );
}

export function BookingPage({ id }: { id: string }) {
  const path = `bookings/${encodeURIComponent(id)}`;
  const found = useResource<BookingBody>(`booking ${id}`, (signal) => call(path, { signal }), untoldTick.value);
  if (!found.value) return found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : <Skeleton lines={8} />;
  const view = found.value;
  const agents = view.agents ?? [];
  return (
    <div class="session">
      <div class="bar">
        <h1>{view.name}</h1>
        <span>{view.kind}, {whenText(view, now.value)}</span>
        <span class="spring" />
        <CopyCommand command={shellWords(["sokovan", "booking", "show", view.name])} />
      </div>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      <Facts
        items={[
          ["from", <Time at={view.starts_at} />],
          ["to", <Time at={view.ends_at} />],
          ["agents", view.hypernode ? agentsText(view) : <Agents names={agents} />],
          ...(view.kind === "maintenance" ? [] : [["for", ownersText(view) || "others"] as const, ["given up if unused for", duration(view.release_unused_s ?? 0)] as const]),
          ...(view.return_s === null || view.return_s === undefined ? [] : [["lent before, to be back within", duration(view.return_s)] as const]),
        ]}
      />
      {me.value?.role === "admin" ? <Evictions path={path} /> : null}
    </div>
  );
}

function Time({ at }: { at: string }) {
  return <time dateTime={at} title={at}>{localText(Date.parse(at)).replace("T", " ")}</time>;
}

function Agents({ names }: { names: readonly string[] }) {
  return (
    <>
      {names.slice(0, AGENTS_MAX).map((name, index) => <span key={name}>{index ? ", " : ""}<a href={href(`/cluster?agent=${encodeURIComponent(name)}`)}>{name}</a></span>)}
      {names.length > AGENTS_MAX ? ` and ${plural(names.length - AGENTS_MAX, "more agent")}` : ""}
    </>
  );
}

/** Who leaves the agents by then, and who had to. */
function Evictions({ path }: { path: string }) {
  const found = useResource<BookingEvictionsView>(`${path} evictions`, (signal) => call(`${path}/evictions`, { signal }), clusterTick.value);
  if (!found.value) return found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : <Skeleton lines={4} />;
  const { planned, evicted } = found.value;
  return (
    <>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      <h2>Sessions that leave for it</h2>
      {planned.length ? (
        <Sessions name="sessions that leave" heads={["Notice", "Ends by", "Then"]} listed={planned}>
          {(one) => <><td><Time at={one.notice_at} /></td><td><Time at={one.ends_by} /></td><td>{afterwards(one)}</td></>}
        </Sessions>
      ) : (
        <p class="muted">No session has to leave, unless others start on these agents before.</p>
      )}
      <h2>Sessions that were evicted for it</h2>
      {evicted.length ? (
        <Sessions name="evicted sessions" heads={["Notice", "Ended", "Lost"]} listed={evicted}>
          {(one) => (
            <>
              <td><Age at={one.notice_at} /> ago</td>
              <td>{one.ended_at ? <><Age at={one.ended_at} /> ago</> : <>by <Time at={one.ends_by} /></>}</td>
              <td>{plural(one.lost_slot_s ?? 0, "slot second")}</td>
            </>
          )}
        </Sessions>
      ) : (
        <p class="muted">No session was evicted.</p>
      )}
    </>
  );
}

interface SessionsProps {
  name: string;
  heads: readonly string[];
  listed: readonly BookingEvictionView[];
  children: (one: BookingEvictionView) => ComponentChildren;
}

function Sessions({ name, heads, listed, children }: SessionsProps) {
  return (
    <>
      <div class="table-box" tabIndex={0} role="region" aria-label={name}>
        <table>
          <thead><tr><th>Session</th><th>User</th><th>Kernels</th>{heads.map((head) => <th key={head}>{head}</th>)}</tr></thead>
          <tbody>
            {listed.map((one) => (
              <tr key={`${one.session} ${one.notice_at}`}>
                <th scope="row"><a href={href(`/sessions/${encodeURIComponent(one.session)}`)}>{one.name || one.session}</a></th>
                <td>{one.user}</td>
                <td>{partText(one)}</td>
                {children(one)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {listed.length >= SHOWN_MAX ? <p class="muted">There may be more: {SHOWN_MAX} are listed.</p> : null}
    </>
  );
}
