// The stream of the fleet: the worker holds one while a page of any tab shows the fleet, and its own stream is open.
import { EventReader } from "../events.ts";
import type { FleetChangeView, FleetView, ProblemView } from "../wire.ts";
import type { Line } from "./leader.ts";
import type { FleetMessage } from "./messages.ts";

const RETRY_MS = 2_000;
// A page that shows the fleet may follow one that did.
const LINGER_MS = 3_000;
// Changes that are held for tabs that come later. Beyond them such a tab has the fleet sent again.
const CHANGES_MAX = 60;

/** Opens a stream, after a place or from its beginning. */
export type Open = (path: string, place: string, signal: AbortSignal) => Promise<Response>;

export class FleetStream {
  readonly #open: Open;
  readonly #lines = new Set<Line>();
  #fleet: FleetView | null = null;
  #changes: FleetChangeView[] = [];
  #place = "";
  #isUp = false;
  #running: AbortController | null = null;
  #end: ReturnType<typeof setTimeout> | undefined;

  constructor(open: Open) {
    this.#open = open;
  }

  /** A tab shows the fleet. */
  add(line: Line): void {
    this.#lines.add(line);
    // What is held may be old if there was no stream; then the changes follow.
    if (this.#fleet) line.postMessage({ kind: "fleet", fleet: this.#fleet, changes: this.#changes });
    else if (this.#place) this.refresh();
    this.#begin();
  }

  /** A tab shows it no more. */
  remove(line: Line): void {
    if (this.#lines.delete(line) && !this.#lines.size) this.#end = setTimeout(() => this.#pause(), LINGER_MS);
  }

  /** The server can be reached, or no more. */
  setUp(now: boolean): void {
    this.#isUp = now;
    if (now) this.#begin();
    else this.#pause();
  }

  /** Everything is sent again. */
  refresh(): void {
    this.#place = "";
    this.#pause();
    this.#begin();
  }

  /** Someone has logged out: nothing is held for another one. */
  stop(): void {
    this.setUp(false);
    this.#fleet = null;
    this.#place = "";
  }

  #begin(): void {
    if (!this.#lines.size) return;
    clearTimeout(this.#end);
    if (this.#running || !this.#isUp) return;
    this.#running = new AbortController();
    void this.#run(this.#running.signal);
  }

  #pause(): void {
    this.#running?.abort();
    this.#running = null;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#follow(signal).catch(() => undefined);
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const answer = await this.#open("fleet/events", this.#place, signal);
    if (!answer.ok || !answer.body) return this.#tell({ kind: "fleetProblem", problem: (await answer.json()) as ProblemView });
    const reader = answer.body.getReader();
    const parser = new EventReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const { event, data } of parser.push(value)) {
        if (event === "fleet") this.#whole(JSON.parse(data) as FleetView);
        if (event === "change") this.#changed(JSON.parse(data) as FleetChangeView);
        if (event === "problem") return;
      }
      this.#place = parser.place || this.#place;
    }
  }

  #whole(fleet: FleetView): void {
    this.#fleet = fleet;
    this.#changes = [];
    this.#tell({ kind: "fleet", fleet, changes: [] });
  }

  #changed(change: FleetChangeView): void {
    if (this.#fleet && this.#changes.push(change) > CHANGES_MAX) this.#fleet = null;
    this.#tell({ kind: "fleetChange", change });
  }

  #tell(message: FleetMessage): void {
    for (const line of this.#lines) line.postMessage(message);
  }
}
