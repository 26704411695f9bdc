// Small parts that every page uses.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ProblemView } from "../wire.ts";
import { duration, printable, problemLines, seconds } from "../format.ts";
import { now } from "../live/store.ts";
import { look } from "../states.ts";

export function State({ status, result = null }: { status: string; result?: string | null }) {
  const { mark, tone } = look(status, result);
  const word = status === "terminated" && result ? result : status;
  return (
    <span class={`state ${tone}`}>
      <span class="mark" aria-hidden="true">{mark}</span>
      {word}
    </span>
  );
}

/** How long ago something was; the exact time is its title. */
export function Age({ at, until = null }: { at: string; until?: string | null }) {
  return (
    <time dateTime={at} title={until ? `${at} to ${until}` : at}>
      {duration(seconds(at, until, now.value))}
    </time>
  );
}

export function CopyCommand({ command }: { command: string }) {
  const [done, setDone] = useState(false);
  const text = useRef<HTMLElement>(null);
  const copy = () => {
    const copied = () => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    };
    // A page without TLS has no clipboard, and a browser may refuse it: then the command is marked, to be copied by keys.
    const mark = () => text.current && getSelection()?.selectAllChildren(text.current);
    if (isSecureContext) navigator.clipboard.writeText(command).then(copied, mark);
    else mark();
  };
  return (
    <button type="button" class="copy" onClick={copy} title="Copy this command">
      <code ref={text}>{printable(command)}</code>
      <span class="copied" aria-live="polite">{done ? "copied" : "copy"}</span>
    </button>
  );
}

export function Empty({ title, command }: { title: string; command?: string }) {
  return (
    <div class="empty">
      <p>{title}</p>
      {command ? <CopyCommand command={command} /> : null}
    </div>
  );
}

export function ProblemBox({ problem, retry }: { problem: ProblemView; retry?: () => void }) {
  const [title, lines] = problemLines(problem);
  return (
    <div class="problem" role="alert">
      <p class="problem-title">{printable(title)}</p>
      {lines.map((one) => <p key={one.where}><code>{one.where}</code> {one.problem}</p>)}
      {problem.hint ? <p class="muted">{problem.hint}</p> : null}
      {problem.request_id ? <p class="muted">request <code>{problem.request_id}</code></p> : null}
      {retry ? <button type="button" onClick={retry}>Try again</button> : null}
    </div>
  );
}

/** Lines where text will be, shown only if it takes longer than a blink. */
export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status" aria-busy="true" aria-label="loading">
      {Array.from({ length: lines }, (_, index) => <span key={index} />)}
    </div>
  );
}

export function Figure({ label, value, note = "", children }: { label: string; value: string; note?: string; children?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>{value}</dd>
      {note ? <dd class="muted">{note}</dd> : null}
      {children ? <dd class="below">{children}</dd> : null}
    </div>
  );
}

export function Facts({ items }: { items: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface ConfirmProps {
  title: string;
  action: string;
  command: string;
  onYes: () => void;
  onNo: () => void;
  children?: ComponentChildren;
}

/** Asks before something that cannot be undone; Escape is no. */
export function Confirm({ title, action, command, onYes, onNo, children }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onCancel={onNo} onClose={onNo} aria-label={title}>
      <h2>{title}</h2>
      {children}
      {command ? <CopyCommand command={command} /> : null}
      <div class="actions">
        <button type="button" onClick={onNo}>Back</button>
        <button type="button" class="danger" onClick={onYes}>{action}</button>
      </div>
    </dialog>
  );
}
