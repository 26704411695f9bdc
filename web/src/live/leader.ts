// Browsers without shared workers: each tab has a worker of its own, and the one that holds a lock works for all of them.
import type { FromWorker, ToWorker } from "./messages.ts";

export interface Line {
  postMessage(message: FromWorker): void;
  /** Tells every tab that is reached in the same way. */
  all?: (message: FromWorker) => void;
}

/** What workers say to each other: the leader that it is one, others what their tabs want, and the leader what they get. */
export type Said =
  | { kind: "leads" }
  | { kind: "asks"; from: string; message: ToWorker }
  | { kind: "answers"; to: string; message: FromWorker };

export interface Channel {
  postMessage(said: Said): void;
  onmessage: ((event: MessageEvent<Said>) => void) | null;
}

export class Tab {
  readonly #name: string;
  readonly #channel: Channel;
  readonly #own: Line;
  readonly #heard: (line: Line, message: ToWorker) => void;
  // Those of the other tabs, once this one leads.
  readonly #others = new Map<string, Line>();
  #leads = false;
  // What a new leader has to know of this tab; nothing before it is open.
  #wants: ToWorker[] = [];

  /** `tell` speaks to the tab of this worker; `heard` does the work of the one that leads. */
  constructor(name: string, channel: Channel, tell: (message: FromWorker) => void, heard: (line: Line, message: ToWorker) => void) {
    this.#name = name;
    this.#channel = channel;
    this.#heard = heard;
    this.#own = { postMessage: tell };
    channel.onmessage = ({ data }) => {
      if (data.kind === "leads") for (const message of this.#wants) this.#ask(message);
      else if (data.kind === "asks" && this.#leads) this.#heard(this.#lineOf(data.from), data.message);
      else if (data.kind === "answers" && (data.to === "" || data.to === name) && this.#wants.length) tell(data.message);
    };
  }

  /** What the tab of this worker wants. */
  said(message: ToWorker): void {
    if (message.kind === "close") this.#wants = [];
    else if (message.kind === "open") this.#wants = [message];
    else if (message.kind === "watch" || message.kind === "fleet") this.#wants = [...this.#wants.filter((one) => one.kind !== message.kind), message];
    this.#ask(message);
  }

  /** From now on it has the lock. */
  lead(): void {
    this.#leads = true;
    for (const message of this.#wants) this.#ask(message);
    this.#channel.postMessage({ kind: "leads" });
  }

  #ask(message: ToWorker): void {
    if (this.#leads) this.#heard(this.#own, message);
    else this.#channel.postMessage({ kind: "asks", from: this.#name, message });
  }

  #lineOf(name: string): Line {
    const answer = (to: string) => (message: FromWorker) => this.#channel.postMessage({ kind: "answers", to, message });
    const line = this.#others.get(name) ?? { postMessage: answer(name), all: answer("") };
    this.#others.set(name, line);
    return line;
  }
}
