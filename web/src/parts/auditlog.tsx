// The audit log: who did what to which object, and whether its entries are as they were written.
import { Fragment } from "preact";
import { call } from "../api.ts";
import { printable, shellWords } from "../format.ts";
import { untoldTick } from "../live/store.ts";
import { query, setQuery } from "../router.ts";
import type { AuditChainView, AuditEntryPage } from "../wire.ts";
import { Age, CopyCommand, Empty, ProblemBox, Skeleton } from "./basics.tsx";
import { FilterInput } from "./filter.tsx";
import { useResource } from "./resource.ts";

const ENTRY_FILTERS = [["who", "Who"], ["action", "Action"], ["target", "Object"]] as const;

export function AuditLog() {
  const chosen = new URLSearchParams();
  for (const name of ["who", "action", "target", "cursor"]) if (query.value.get(name)) chosen.set(name, query.value.get(name) ?? "");
  const address = `audit-log?${chosen.toString()}&limit=50`;
  const found = useResource<AuditEntryPage>(address, (signal) => call(address, { signal }), untoldTick.value);
  const words = ["sokovan", "audit-log", ...ENTRY_FILTERS.flatMap(([name]) => (query.value.get(name) ? [`--${name}`, query.value.get(name) ?? ""] : []))];
  return (
    <>
      <Chain />
      <div class="filters">
        {ENTRY_FILTERS.map(([name, label]) => (
          <label key={name}>{label} <FilterInput name={name} /></label>
        ))}
      </div>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {!found.value ? (found.problem ? null : <Skeleton lines={8} />) : !found.value.items.length ? (
        <Empty title={found.value.next ? "None of the last entries matches; look at older ones." : "No entry matches the filters."} />
      ) : (
        <div class="table-box" tabIndex={0} role="region" aria-label="Audit log">
          <table>
            <thead><tr><th class="right">Number</th><th class="right">Age</th><th>Who</th><th>Action</th><th>Object</th><th>Outcome</th><th class="wide">Detail</th></tr></thead>
            <tbody>
              {found.value.items.map((entry) => (
                <tr key={entry.number}>
                  <td class="right">{entry.number}</td>
                  <td class="right"><Age at={entry.at} /></td>
                  <td>{entry.who}</td>
                  <th scope="row">{entry.action}</th>
                  <td><code>{entry.target}</code></td>
                  <td>{entry.outcome}</td>
                  <td class="muted wide details">{Object.entries(entry.detail).filter(([, value]) => value !== "").map(([name, value], index) => <Fragment key={name}>{index ? ", " : ""}<span class="pair-of">{printable(`${name}=${value}`)}</span></Fragment>)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="actions">
        <button type="button" disabled={!query.value.get("cursor")} onClick={() => setQuery({ cursor: "" })}>Newest</button>
        <button type="button" disabled={!found.value?.next} onClick={() => setQuery({ cursor: found.value?.next ?? "" })}>Older</button>
        <CopyCommand command={shellWords(words)} />
      </div>
    </>
  );
}

/** Whether an entry was changed since it was written; all of them are read. */
function Chain() {
  const found = useResource<AuditChainView>("audit chain", (signal) => call("audit-log/chain", { signal }));
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  const chain = found.value;
  return (
    <div class="bar chain" aria-live="polite">
      {!chain ? <span class="muted">checking all entries …</span> : chain.intact ? (
        <span><span class="state good">✓ intact</span> <span class="muted">no entry was changed, removed or added; checked <Age at={chain.checked_at} /> ago</span></span>
      ) : (
        <span><span class="state bad">✕ broken</span> from entry {chain.first_broken} on: entries were changed, removed or added</span>
      )}
      <span class="spring" />
      <button type="button" onClick={found.retry}>Check again</button>
      <CopyCommand command="sokovan audit-log --check" />
    </div>
  );
}
