// What owners hold beside the limits of their quotas.
import { all } from "../api.ts";
import { amount } from "../format.ts";
import { limitRows } from "../limits.ts";
import { untoldTick } from "../live/store.ts";
import type { OwnerLimitsView } from "../wire.ts";
import { CopyCommand, Empty, ProblemBox, Skeleton } from "./basics.tsx";
import { useResource } from "./resource.ts";

export function Limits() {
  const found = useResource<OwnerLimitsView[]>("limits", (signal) => all("limits", signal), untoldTick.value);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={3} />;
  const rows = limitRows(found.value);
  if (!rows.length) return <Empty title="No owner has a quota that limits slots or sessions." command="sokovan user set NAME --quota QUOTA" />;
  const text = (slot: string | null, value: number) => (slot === null ? String(value) : amount(slot, value));
  return (
    <>
      <h2>Limits and what is held</h2>
      <div class="table-box" tabIndex={0} role="region" aria-label="limits">
        <table>
          <thead><tr><th>Owner</th><th>Quota</th><th>Of</th><th class="wide">Share of the limit</th><th class="right">Held now</th><th class="right">Limit</th></tr></thead>
          <tbody>
            {rows.slice(0, 200).map((row) => (
              <tr key={`${row.kind} ${row.name} ${row.slot ?? ""}`}>
                <th scope="row">{row.kind} {row.name}</th>
                <td>{row.policy}</td>
                <td>{row.slot ?? "sessions"}</td>
                <td class="wide"><span class="share" aria-hidden="true"><span class={row.used > row.limit ? "over" : "used"} style={{ width: `${Math.min(100, (row.used / Math.max(1, row.limit)) * 100)}%` }} /></span></td>
                <td class="right">{text(row.slot, row.used)}</td>
                <td class="right">{text(row.slot, row.limit)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > 200 ? <p class="muted">The 200 nearest to their limit of {rows.length}.</p> : null}
      <div class="actions"><CopyCommand command="sokovan limits" /></div>
    </>
  );
}
