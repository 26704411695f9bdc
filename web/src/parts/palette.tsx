// Ctrl-K: go to a page, a session, an agent or a deployment by a part of its name.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { all, call } from "../api.ts";
import { sessions } from "../live/store.ts";
import { useSearch } from "./search.ts";
import { go } from "../router.ts";
import { merged } from "../rows.ts";
import { type Target, targetsFor } from "../targets.ts";
import type { DeploymentView, FleetView } from "../wire.ts";

interface PaletteProps {
  pages: readonly Target[];
  onClose: () => void;
}

export function Palette({ pages, onClose }: PaletteProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const [others, setOthers] = useState<Target[]>([]);
  useEffect(() => {
    dialog.current?.showModal();
    const stopped = new AbortController();
    const { signal } = stopped;
    const agents = call<FleetView>("fleet", { signal }).then((fleet) =>
      fleet.agents.map((name) => ({ kind: "agent", name, to: `/cluster?agent=${encodeURIComponent(name)}` })),
    );
    const deployments = all<DeploymentView>("deployments", signal).then((found) =>
      found.map((one) => ({ kind: "deployment", name: one.name, to: `/deployments/${encodeURIComponent(one.id)}` })),
    );
    for (const part of [agents, deployments]) part.then((more) => setOthers((before) => [...before, ...more]), () => undefined);
    return () => stopped.abort();
  }, []);
  const beyond = useSearch(text, "", false).rows;
  const held = sessions.value;
  const rows = useMemo(() => (beyond.length ? merged(held, beyond) : held), [held, beyond]);
  const known = useMemo(
    () => [...pages, ...others, ...rows.map((row) => ({ kind: "session", name: row.name || row.id, to: `/sessions/${encodeURIComponent(row.id)}` }))],
    [pages, others, rows],
  );
  const found = useMemo(() => targetsFor(known, text), [known, text]);
  const open = (target: Target | undefined) => {
    if (!target) return;
    onClose();
    go(target.to);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setActive(Math.min(found.length - 1, active + 1));
    else if (event.key === "ArrowUp") setActive(Math.max(0, active - 1));
    else if (event.key === "Enter") open(found[active]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" onCancel={onClose} onClose={onClose} aria-label="go to">
      <input
        type="text" role="combobox" aria-expanded="true" aria-controls="targets" aria-autocomplete="list"
        aria-activedescendant={found[active] ? `target-${active}` : undefined} aria-label="go to a page, session, agent or deployment"
        placeholder="go to a page, session, agent or deployment" value={text} onKeyDown={pressed}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
        }}
      />
      <ul id="targets" role="listbox" aria-label="targets">
        {found.map((target, index) => (
          <li key={`${target.kind} ${target.to}`} id={`target-${index}`} role="option" aria-selected={index === active} onClick={() => open(target)}>
            <span class="muted">{target.kind}</span> {target.name}
          </li>
        ))}
      </ul>
      {found.length ? null : <p class="muted">Nothing has this name.</p>}
    </dialog>
  );
}
