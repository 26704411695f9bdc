// The list of sessions: filters in the address, keys, a drawer that explains, and stopping several at once.
import { useMemo, useRef, useState } from "preact/hooks";
import { Problem, call } from "../api.ts";
import { plural, printable, shellWords } from "../format.ts";
import { clusterTick, cut, loaded, readMore, sessions } from "../live/store.ts";
import { Age, Confirm, CopyCommand, Empty, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { useCounts } from "../parts/counts.ts";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useKeys } from "../parts/keys.ts";
import { useResource } from "../parts/resource.ts";
import { useSearch } from "../parts/search.ts";
import { Why } from "../parts/why.tsx";
import { go, query, setQuery } from "../router.ts";
import { type SessionRow, type Sort, type SortKey, countBy, matches, merged, rowOf, sortAfter, sortOf, sortParameter, sorted, sortedUntil } from "../rows.ts";
import { ENDED, STATUSES } from "../states.ts";
import { forgetView, saveView, views } from "../views.ts";
import type { ProblemView, SessionRowPage } from "../wire.ts";

const COLUMNS: GridColumn<SessionRow>[] = [
  { name: "State", sort: "state", width: "7.5rem", cell: (row) => <State status={row.status} result={row.result} /> },
  { name: "Name", sort: "name", width: "minmax(9rem, 1.4fr)", cell: (row) => <a href={`/ui/sessions/${encodeURIComponent(row.id)}`}>{row.name || row.id}</a> },
  { name: "User", sort: "user", width: "minmax(5rem, 0.7fr)", cell: (row) => row.user },
  { name: "Queue", sort: "queue", width: "minmax(5rem, 0.7fr)", cell: (row) => row.queue },
  { name: "Kernels", sort: "kernels", width: "6rem", right: true, cell: (row) => row.size },
  { name: "GPU", sort: "gpu", width: "4.5rem", right: true, cell: (row) => row.devices || "–" },
  { name: "Age", sort: "age", width: "5.5rem", right: true, cell: (row) => <Age at={row.submitted_at} /> },
  { name: "Reason", sort: "reason", width: "minmax(8rem, 2fr)", cell: (row) => <span title={printable(row.detail ?? "")}>{row.reason ? <><code>{row.reason}</code> {printable(row.detail ?? "")}</> : ""}</span> },
];

function command(status: string, text: string, sort: Sort): string {
  return shellWords(["sokovan", "ps", ...(sortParameter(sort) ? ["--sort", sortParameter(sort)] : []), ...(status ? ["--status", status] : []), ...(text.trim() ? ["--search", text.trim()] : [])]);
}

export function SessionsPage() {
  const text = query.value.get("q") ?? "";
  const status = query.value.get("status") ?? "";
  const open = query.value.get("open") ?? "";
  const [active, setActive] = useState(-1);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const held = sessions.value;
  const order = query.value.get("sort") ?? "";
  const sort = sortOf(order);
  const ordered = sortParameter(sort);
  const search = useSearch(text, status, true, ordered);
  const beyond = search.rows;
  const everything = useMemo(() => (beyond.length ? merged(held, beyond) : held), [held, beyond]);
  const found = useMemo(() => {
    const foundBeyond = new Set(beyond.map((row) => row.id));
    return everything.filter((row) => matches(row, text) || foundBeyond.has(row.id));
  }, [everything, text]);
  const listed = useMemo(() => countBy(found, (row) => row.status), [found]);
  const everywhere = useCounts();
  const counts = text ? listed : everywhere;
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const isCut = cut.value;
  const { ends } = search;
  const shown = useMemo(() => {
    const wanted = status ? found.filter((row) => row.status === status) : found;
    return ordered && isCut ? sortedUntil(wanted, sort, ends) : sorted(wanted, sort);
  }, [found, status, ordered, isCut, ends]);
  const openedHere = open ? everything.find((row) => row.id === open) : undefined;
  // An address may name a session that is not in the part of the list that was read.
  const missing = open && cut.value && !openedHere ? open : "";
  const elsewhere = useResource<SessionRow | null>(
    `opened ${missing}`,
    async (signal) => (missing ? ((await call<SessionRowPage>(`sessions/rows?id=${encodeURIComponent(missing)}&limit=1`, { signal })).items.map(rowOf)[0] ?? null) : null),
    missing ? clusterTick.value : 0,
  );
  const opened = openedHere ?? elsewhere.value ?? undefined;
  const toStop = everything.filter((row) => chosen.has(row.id) && !ENDED.has(row.status));
  const current = shown[active];

  const choose = (row: SessionRow | undefined) => {
    if (!row) return;
    const next = new Set(chosen);
    if (!next.delete(row.id)) next.add(row.id);
    setChosen(next);
  };
  const stop = async () => {
    setAsking(false);
    setProblem(null);
    // One after the other: the server does the same work, and the first refusal is shown.
    for (const row of toStop) {
      try {
        await call(`sessions/${encodeURIComponent(row.id)}`, { method: "DELETE" });
      } catch (error) {
        if (error instanceof Problem) setProblem(error.view);
      }
    }
    setChosen(new Set());
  };
  useKeys({
    "/": () => field.current?.focus(),
    j: () => setActive(Math.min(shown.length - 1, active + 1)),
    k: () => setActive(Math.max(0, active - 1)),
    ArrowDown: () => setActive(Math.min(shown.length - 1, active + 1)),
    ArrowUp: () => setActive(Math.max(0, active - 1)),
    x: () => choose(current),
    Enter: () => current && (open === current.id ? go(`/sessions/${encodeURIComponent(current.id)}`) : setQuery({ open: current.id })),
    Escape: () => {
      if (document.activeElement === field.current) field.current?.blur();
      else if (open) setQuery({ open: "" });
      else setChosen(new Set());
    },
  });
  if (!loaded.value) return <Skeleton lines={12} />;
  return (
    <div class={`sessions${opened ? " with-drawer" : ""}`}>
      <div class="column">
        <div class="bar">
          <h1>Sessions</h1>
          <input
            ref={field} type="search" placeholder="filter ( / ): name, user, queue" aria-label="filter sessions"
            value={text} onInput={(event) => setQuery({ q: event.currentTarget.value })}
          />
          <span class="spring" />
          {chosen.size ? (
            <button type="button" class="danger" disabled={!toStop.length} onClick={() => setAsking(true)}>
              Stop {plural(toStop.length, "session")}
            </button>
          ) : null}
          <CopyCommand command={command(status, text, sort)} />
        </div>
        <div class="chips" role="group" aria-label="states">
          <button type="button" aria-pressed={!status} onClick={() => setQuery({ status: "" })}>all <b>{total}</b></button>
          {STATUSES.filter((one) => counts.get(one) || one === status).map((one) => (
            <button key={one} type="button" aria-pressed={one === status} onClick={() => setQuery({ status: one === status ? "" : one })}>
              {one} <b>{counts.get(one) ?? 0}</b>
            </button>
          ))}
        </div>
        <SavedViews text={text} status={status} />
        {isCut && ordered ? <p class="muted">{`The first ${plural(shown.length, "session")} in this order ${shown.length === 1 ? "is" : "are"} read, and more at the end of the list.`}</p> : null}
        {isCut && !ordered ? <p class="muted">The newest {held.length} sessions are read, and older ones at the end of the list; a filter by name, id, user, queue or reason finds older ones.</p> : null}
        {problem ? <ProblemBox problem={problem} /> : null}
        {shown.length ? (
          <Grid
            label="sessions" items={shown} columns={COLUMNS} keyOf={(row) => row.id} active={active} chosen={chosen}
            onActive={setActive} onOpen={(row) => setQuery({ open: row.id })}
            onEnd={text || status || ordered ? search.more : readMore}
            sorted={sort} onSort={(key) => setQuery({ sort: sortAfter(sort, key as SortKey) })}
          />
        ) : everything.length || text || status ? (
          <Empty title="No session matches the filter." />
        ) : (
          <Empty title="There are no sessions yet. Start one:" command="sokovan run -- python -c &quot;print('hello')&quot;" />
        )}
      </div>
      {opened ? <Drawer row={opened} /> : null}
      {asking ? (
        <Confirm
          title={`Stop ${plural(toStop.length, "session")}?`} action="Stop"
          command={shellWords(["sokovan", "stop", ...toStop.slice(0, 20).map((row) => row.name || row.id)])}
          onYes={() => void stop()} onNo={() => setAsking(false)}
        />
      ) : null}
    </div>
  );
}

/** Filters under a name, kept in this browser. */
function SavedViews({ text, status }: { text: string; status: string }) {
  const [name, setName] = useState("");
  const current = new URLSearchParams({ ...(text ? { q: text } : {}), ...(status ? { status } : {}) }).toString();
  const saved = views.value.find((one) => one.query === current);
  const save = (event: Event) => {
    event.preventDefault();
    if (name.trim()) saveView(name.trim().slice(0, 40), current);
    setName("");
  };
  if (!views.value.length && !current) return null;
  return (
    <div class="chips" role="group" aria-label="saved views">
      {views.value.map((one) => (
        <button key={one.name} type="button" aria-pressed={one.query === current} onClick={() => {
          const wanted = new URLSearchParams(one.query);
          setQuery({ q: wanted.get("q") ?? "", status: wanted.get("status") ?? "" });
        }}>{one.name}</button>
      ))}
      {saved ? <button type="button" onClick={() => forgetView(saved.name)}>Forget {saved.name}</button> : null}
      {current && !saved ? (
        <form class="inline" onSubmit={save}>
          <input aria-label="name of this view" placeholder="save this filter as" value={name} onInput={(event) => setName(event.currentTarget.value)} />
          <button type="submit" disabled={!name.trim()}>Save</button>
        </form>
      ) : null}
    </div>
  );
}

function Drawer({ row }: { row: SessionRow }) {
  return (
    <aside class="drawer" aria-label={`session ${row.name || row.id}`}>
      <div class="bar">
        <h2>{row.name || row.id}</h2>
        <span class="spring" />
        <button type="button" onClick={() => setQuery({ open: "" })} aria-label="close">✕</button>
      </div>
      <p><State status={row.status} result={row.result} /> · {plural(row.size, "kernel")}{row.devices ? `, ${row.devices} GPU` : ""} · {row.user} in {row.queue}</p>
      <Why id={row.id} tick={`${row.status} ${row.detail ?? ""}`} />
      <p><a href={`/ui/sessions/${encodeURIComponent(row.id)}`}>Lanes, logs and everything else</a></p>
    </aside>
  );
}
