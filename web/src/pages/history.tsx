// Sessions that have ended, page by page, and the audit log; the filters and the place are in the address.
import { call } from "../api.ts";
import { endedCommand } from "../commands.ts";
import { amount, deviceSlot, duration, printable, seconds } from "../format.ts";
import { untoldTick } from "../live/store.ts";
import { Age, CopyCommand, Empty, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { AuditLog } from "../parts/auditlog.tsx";
import { FilterInput } from "../parts/filter.tsx";
import { useResource } from "../parts/resource.ts";
import { href, query, setQuery } from "../router.ts";
import { me } from "../session.ts";
import type { SessionPage, SessionView } from "../wire.ts";

const FILTERS = [["user", "User"], ["queue", "Queue"], ["group", "Group"], ["name", "Name"], ["label", "Label"]] as const;
const STATES = [["", "all"], ["terminated", "terminated"], ["cancelled", "cancelled"]] as const;
const PAGE = 50;

export function HistoryPage() {
  const ofLog = me.value?.role === "admin" && query.value.get("view") === "log";
  return <div class="history">{ofLog ? <><div class="bar"><h1>History</h1><Views ofLog /></div><AuditLog /></> : <EndedSessions />}</div>;
}

/** Administrators choose between the sessions and the audit log. */
function Views({ ofLog = false }: { ofLog?: boolean }) {
  if (me.value?.role !== "admin") return null;
  return (
    <div class="chips" role="group" aria-label="view">
      <button type="button" aria-pressed={!ofLog} onClick={() => setQuery({ view: "", who: "", action: "", target: "", cursor: "" })}>ended sessions</button>
      <button type="button" aria-pressed={ofLog} onClick={() => setQuery({ view: "log", status: "", user: "", queue: "", group: "", name: "", label: "", cursor: "" })}>audit log</button>
    </div>
  );
}

function EndedSessions() {
  const chosen = new URLSearchParams();
  chosen.set("status", query.value.get("status") || "terminated,cancelled");
  for (const [name] of FILTERS) if (query.value.get(name)) chosen.set(name, query.value.get(name) ?? "");
  const cursor = query.value.get("cursor") ?? "";
  if (cursor) chosen.set("cursor", cursor);
  const address = `sessions?${chosen.toString()}&limit=${PAGE}`;
  const found = useResource<SessionPage>(`history ${address}`, (signal) => call(address, { signal }), untoldTick.value);
  return (
    <>
      <div class="bar">
        <h1>History</h1>
        <Views />
        <div class="chips" role="group" aria-label="states">
          {STATES.map(([value, text]) => (
            <button key={value} type="button" aria-pressed={(query.value.get("status") ?? "") === value} onClick={() => setQuery({ status: value, cursor: "" })}>{text}</button>
          ))}
        </div>
        <span class="spring" />
        <CopyCommand command={endedCommand(query.value)} />
      </div>
      <div class="filters">
        {FILTERS.map(([name, label]) => (
          <label key={name}>
            {label}{" "}
            <FilterInput name={name} />
          </label>
        ))}
      </div>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {found.value ? <Ended page={found.value} cursor={cursor} /> : found.problem ? null : <Skeleton lines={10} />}
    </>
  );
}

function isFiltered(): boolean {
  return ["status", "cursor", ...FILTERS.map(([name]) => name)].some((name) => query.value.get(name));
}

function Ended({ page, cursor }: { page: SessionPage; cursor: string }) {
  if (!page.items.length) return <Empty title={isFiltered() ? "No session that ended matches the filters." : "No session has ended yet."} command="sokovan ps --all" />;
  return (
    <>
      <div class="table-box" tabIndex={0} role="region" aria-label="ended sessions">
        <table>
          <thead>
            <tr>
              <th>Result</th><th>Name</th><th>User</th><th>Queue</th><th class="right">Kernels</th><th class="right">Devices</th>
              <th class="right">Waited</th><th class="right">Ran</th><th class="right">Ended</th><th>Reason</th>
            </tr>
          </thead>
          <tbody>{page.items.map((one) => <Row key={one.id} view={one} />)}</tbody>
        </table>
      </div>
      <div class="actions">
        <button type="button" disabled={!cursor} onClick={() => setQuery({ cursor: "" })}>Newest</button>
        <button type="button" disabled={!page.next} onClick={() => setQuery({ cursor: page.next ?? "" })}>Older</button>
      </div>
    </>
  );
}

function Row({ view }: { view: SessionView }) {
  const slot = deviceSlot(view.slots);
  const end = view.ended_at;
  const began = view.scheduled_at;
  const text = (from: string | null, to: string | null) => (from && to ? duration(seconds(from, to, 0)) : "–");
  return (
    <tr>
      <td><State status={view.status} result={view.result} />{view.exit_code ? <span class="muted"> exit {view.exit_code}</span> : ""}</td>
      <th scope="row"><a href={href(`/sessions/${encodeURIComponent(view.id)}`)}>{view.name || view.id}</a></th>
      <td>{view.user}</td>
      <td>{view.queue}</td>
      <td class="right">{view.size}</td>
      <td class="right">{slot ? amount(slot, view.slots[slot] ?? 0) : "–"}</td>
      <td class="right">{text(view.submitted_at, began ?? end)}</td>
      <td class="right">{text(began, end)}</td>
      <td class="right">{end ? <><Age at={end} /> ago</> : "–"}</td>
      <td>{view.reason ? <code>{view.reason}</code> : ""} {printable(view.reason_detail ?? "")}</td>
    </tr>
  );
}
