// The stream of the fleet: the worker holds one while a page of any tab shows the fleet, and its own stream is open.
import { EventReader, SILENT_MS } from "../events.ts";
import type { ProblemView } from "../wire.ts";
import type { Line } from "./leader.ts";
import type { FleetMessage } from "./messages.ts";

const RETRY_MS = 2_000;
/** Opens a stream, after a place or from its beginning. */
export type Open = (path: string, place: string, signal: AbortSignal) => Promise<Response>;

export class FleetStream {
  readonly #open: Open;
  readonly #lines = new Set<Line>();
  #place = "";
  #isUp = false;
  #running: AbortController | null = null;

  constructor(open: Open) {
    this.#open = open;
  }

  /** A tab shows the fleet: it is sent as a whole, once more for those that have it. */
  add(line: Line): void {
    this.#lines.add(line);
    this.refresh();
  }

  /** A tab shows it no more. */
  remove(line: Line): void {
    this.#lines.delete(line);
    if (!this.#lines.size) this.#running?.abort();
  }

  /** The server can be reached, or no more. */
  setUp(now: boolean): void {
    if (now === this.#isUp) return;
    this.#isUp = now;
    this.#begin();
  }

  /** Everything is sent again. */
  refresh(): void {
    this.#place = "";
    this.#begin();
  }

  #begin(): void {
    this.#running?.abort();
    if (this.#isUp && this.#lines.size) void this.#run((this.#running = new AbortController()).signal);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#follow(signal).catch(() => undefined);
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }

  /** Until the stream ends or is silent; it may come from another manager than the events. */
  async #follow(signal: AbortSignal): Promise<void> {
    const own = new AbortController();
    const end = () => own.abort();
    signal.addEventListener("abort", end, { signal: own.signal });
    let silence: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(end, SILENT_MS);
    };
    heard();
    await this.#read(own.signal, heard).finally(() => {
      clearTimeout(silence);
      end();
    });
  }

  async #read(signal: AbortSignal, heard: () => void): Promise<void> {
    const answer = await this.#open("fleet/events", this.#place, signal);
    if (!answer.ok || !answer.body) {
      // It may be none of the server's own.
      const problem = await answer.json().catch(() => ({ title: "no fleet", detail: `status ${answer.status}` }));
      return this.#tell({ kind: "fleet", problem: problem as ProblemView });
    }
    const reader = answer.body.getReader();
    const parser = new EventReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      for (const { event, data } of parser.push(value)) {
        // `fleet`, `change` or `problem`, as the message has them.
        this.#tell({ kind: "fleet", [event]: JSON.parse(data) } as FleetMessage);
      }
      this.#place = parser.place || this.#place;
    }
  }

  #tell(message: FleetMessage): void {
    for (const line of this.#lines) line.postMessage(message);
  }
}
