// The list of sessions: filters in the address, keys, a drawer that explains, and stopping several at once.
import { useMemo, useRef, useState } from "preact/hooks";
import { call } from "../api.ts";
import { listCommand } from "../commands.ts";
import { LINES_MAX, stopCommand, stoppable, summaryOf } from "../endings.ts";
import { plural, printable } from "../format.ts";
import { clusterTick, cut, loaded, readMore, sessions } from "../live/store.ts";
import { useAction } from "../parts/action.ts";
import { Age, Confirm, CopyCommand, Empty, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { useCounts } from "../parts/counts.ts";
import { Grid, type GridColumn } from "../parts/grid.tsx";
import { useKeys } from "../parts/keys.ts";
import { useResource } from "../parts/resource.ts";
import { useSearch } from "../parts/search.ts";
import { Why } from "../parts/why.tsx";
import { go, query, setQuery } from "../router.ts";
import { type SessionRow, type SortKey, countBy, matches, merged, rowOf, sortAfter, sortOf, sortParameter, sorted, sortedUntil } from "../rows.ts";
import { STATUSES } from "../states.ts";
import { forgetView, saveView, views } from "../views.ts";
import type { SessionRowPage, StopItemView, StopView } from "../wire.ts";

const OUTCOMES_MAX = 100;
const COLUMNS: GridColumn<SessionRow>[] = [
  { name: "State", sort: "state", width: "7.5rem", cell: (row) => <State status={row.status} result={row.result} /> },
  { name: "Name", sort: "name", width: "minmax(9rem, 1.4fr)", cell: (row) => <a href={`/ui/sessions/${encodeURIComponent(row.id)}`}>{row.name || row.id}</a> },
  { name: "User", sort: "user", width: "minmax(5rem, 0.7fr)", cell: (row) => row.user },
  { name: "Queue", sort: "queue", width: "minmax(5rem, 0.7fr)", cell: (row) => row.queue },
  { name: "Kernels", sort: "kernels", width: "6rem", right: true, cell: (row) => row.size },
  { name: "GPU", sort: "gpu", width: "4.5rem", right: true, cell: (row) => row.devices || "–" },
  { name: "Age", sort: "age", width: "5.5rem", right: true, cell: (row) => <Age at={row.submitted_at} /> },
  { name: "Reason", sort: "reason", width: "minmax(8rem, 2fr)", title: (row) => printable(row.detail ?? ""), cell: (row) => (row.reason ? <><code>{row.reason}</code> {printable(row.detail ?? "")}</> : "") },
];

export function SessionsPage() {
  const text = query.value.get("q") ?? "";
  const status = query.value.get("status") ?? "";
  const open = query.value.get("open") ?? "";
  const [active, setActive] = useState(-1);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asking, setAsking] = useState(false);
  const [outcomes, setOutcomes] = useState<readonly StopItemView[]>([]);
  const action = useAction();
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
  const toStop = useMemo(() => stoppable(everything, chosen), [everything, chosen]);
  const current = shown[active];
  const unseen = useMemo(() => {
    const listedIds = new Set(shown.map((row) => row.id));
    return toStop.filter((row) => !listedIds.has(row.id)).length;
  }, [shown, toStop]);

  const choose = (row: SessionRow | undefined) => {
    if (!row) return;
    const next = new Set(chosen);
    if (!next.delete(row.id)) next.add(row.id);
    setChosen(next);
  };
  const chooseAll = (all: boolean) => {
    const next = new Set(chosen);
    for (const row of shown) {
      if (all) next.add(row.id);
      else next.delete(row.id);
    }
    setChosen(next);
  };
  const stop = () => {
    const asked = toStop.slice(0, LINES_MAX);
    setAsking(false);
    setOutcomes([]);
    action.run(async () => {
      const view = await call<StopView>("sessions:stop", { method: "POST", lines: asked.map((row) => ({ session: row.id })) });
      // What was refused says its name too, and stays chosen.
      const named = view.items.map((one, at) => ({ ...one, id: one.id ?? asked[at]?.id ?? null, name: one.name ?? asked[at]?.name ?? null }));
      setOutcomes(named);
      setChosen(new Set(named.flatMap((one) => (one.problem && one.id ? [one.id] : []))));
    });
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
            <>
              <span class="muted" role="status">{chosen.size} selected</span>
              <button type="button" onClick={() => setChosen(new Set())}>Clear</button>
              <button type="button" class="danger" disabled={!toStop.length || action.busy} onClick={() => setAsking(true)}>
                Stop {plural(toStop.length, "session")}
              </button>
            </>
          ) : null}
          <CopyCommand command={listCommand(status, text, sort, shown)} />
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
        {isCut && ordered ? <p class="muted">{`The first ${plural(shown.length, "session")} in this order ${shown.length === 1 ? "is" : "are"} shown; more follow when you reach the end of the list.`}</p> : null}
        {isCut && !ordered ? <p class="muted">The newest {held.length} sessions are shown; older ones follow when you reach the end of the list. A filter by name, id, user, queue or reason finds them too.</p> : null}
        {action.problem ? <ProblemBox problem={action.problem} /> : null}
        {outcomes.length ? <Outcomes items={outcomes} onDone={() => setOutcomes([])} /> : null}
        {shown.length ? (
          <Grid
            label="sessions" items={shown} columns={COLUMNS} keyOf={(row) => row.id} active={active} chosen={chosen}
            onActive={setActive} onOpen={(row) => setQuery({ open: row.id })}
            onEnd={text || status || ordered ? search.more : readMore}
            onChoose={choose} onChooseAll={chooseAll} nameOf={(row) => row.name || row.id}
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
          title={`Stop ${plural(Math.min(toStop.length, LINES_MAX), "session")}?`} action="Stop" command={stopCommand(toStop)}
          onYes={stop} onNo={() => setAsking(false)}
        >
          {unseen ? <p class="muted">{plural(unseen, "of them is", "of them are")} not listed under the filter of now.</p> : null}
          {toStop.length > LINES_MAX ? <p class="muted">Of {toStop.length} that are selected: a request ends so many at most.</p> : null}
          {stopCommand(toStop) ? null : <p class="muted">The command that names each of them is too long to be shown.</p>}
        </Confirm>
      ) : null}
    </div>
  );
}

/** What became of each session that was to be stopped: the refused ones first. */
function Outcomes({ items, onDone }: { items: readonly StopItemView[]; onDone: () => void }) {
  const refused = items.filter((one) => one.problem);
  const done = items.filter((one) => !one.problem);
  const link = (one: StopItemView) => <a href={`/ui/sessions/${encodeURIComponent(one.id ?? "")}`}>{one.name || one.id}</a>;
  return (
    <section class="notice outcomes" aria-label="outcomes" role="status">
      <p>{summaryOf(items)} <button type="button" onClick={onDone}>Close</button></p>
      {refused.length ? <ul aria-label="refused">{refused.slice(0, OUTCOMES_MAX).map((one) => <li key={one.id}>{link(one)}: {printable(one.problem?.detail ?? "")}</li>)}</ul> : null}
      {done.length ? (
        <details>
          <summary>{plural(done.length, "session")} and how each was found</summary>
          <ul aria-label="accepted">{done.slice(0, OUTCOMES_MAX).map((one) => <li key={one.id}>{link(one)} <State status={one.status ?? ""} /></li>)}</ul>
          {done.length > OUTCOMES_MAX ? <p class="muted">The first {OUTCOMES_MAX} are listed.</p> : null}
        </details>
      ) : null}
    </section>
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
