// Filters that were saved under a name, in this browser.
import { signal } from "@preact/signals";

const KEPT = "sokovan-views";
const VIEWS_MAX = 30;

export interface SavedView {
  name: string;
  query: string;
}

function stored(): SavedView[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found.filter((one): one is SavedView => typeof one?.name === "string" && typeof one?.query === "string").slice(0, VIEWS_MAX);
  } catch {
    return [];
  }
}

export const views = signal<SavedView[]>(stored());

function keep(next: SavedView[]): void {
  views.value = next.slice(-VIEWS_MAX);
  localStorage.setItem(KEPT, JSON.stringify(views.value));
}

export function saveView(name: string, query: string): void {
  keep([...views.value.filter((one) => one.name !== name), { name, query }]);
}

export function forgetView(name: string): void {
  keep(views.value.filter((one) => one.name !== name));
}
