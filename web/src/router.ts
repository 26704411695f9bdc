// The address of the page: its path below /ui, and its query, which holds filters and what is open.
import { computed, signal } from "@preact/signals";

const BASE = "/ui";

const address = signal(location.pathname + location.search);

export const path = computed(() => new URL(address.value, location.origin).pathname.slice(BASE.length) || "/");
export const query = computed(() => new URL(address.value, location.origin).searchParams);

export function href(to: string): string {
  return BASE + to;
}

/** A part of a path as text; what is not encoded well stays as it is, and names nothing. */
export function decodedPart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function go(to: string): void {
  history.pushState(null, "", href(to));
  address.value = location.pathname + location.search;
}

/** Change parts of the query in place; an empty value removes its name. */
export function setQuery(changes: Record<string, string>): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  address.value = location.pathname + location.search;
}

addEventListener("popstate", () => (address.value = location.pathname + location.search));

/** Change the whole query in place: `?` and its parts, or nothing. */
export function replaceQuery(text: string): void {
  history.replaceState(null, "", location.pathname + text);
  address.value = location.pathname + location.search;
}

/** Let clicks on links of this application stay on the page. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.origin !== location.origin || !link.pathname.startsWith(BASE)) return;
  if (link.hasAttribute("download")) return;
  event.preventDefault();
  go(link.pathname.slice(BASE.length) + link.search);
}
