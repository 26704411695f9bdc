// A list of any length: only the rows that can be seen are in the document.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface GridColumn<T> {
  name: string;
  width: string;
  right?: boolean;
  cell: (item: T) => ComponentChildren;
  /** What the cell says in full. */
  title?: (item: T) => string;
  /** The key that the list is sorted by when its head is chosen. */
  sort?: string;
}

interface GridProps<T> {
  label: string;
  items: readonly T[];
  columns: readonly GridColumn<T>[];
  keyOf: (item: T) => string;
  active: number;
  chosen?: ReadonlySet<string>;
  onActive: (index: number) => void;
  onOpen: (item: T) => void;
  /** The last rows are near: more may be read. */
  onEnd?: () => void;
  sorted?: { key: string; falls: boolean };
  onSort?: (key: string) => void;
  /** Items are chosen by boxes: one, or all that are listed. */
  onChoose?: (item: T) => void;
  onChooseAll?: (all: boolean) => void;
  nameOf?: (item: T) => string;
}

const BOX = "2rem";
const ROW = 32;
// Beyond those in view, on both sides: a frame of smooth scrolling moves less than a row.
const SPARE = 1;
// Rows before the end at which more are asked for.
const NEAR_END = 50;

export function Grid<T>({ label, items, columns, keyOf, active, chosen, onActive, onOpen, onEnd, sorted, onSort, onChoose, onChooseAll, nameOf = keyOf }: GridProps<T>) {
  const body = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useLayoutEffect(() => {
    const element = body.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    const element = body.current;
    if (!element || active < 0) return;
    const at = active * ROW;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + ROW > element.scrollTop + element.clientHeight) element.scrollTop = at + ROW - element.clientHeight;
  }, [active]);
  const first = Math.max(0, Math.floor(top / ROW) - SPARE);
  const last = Math.min(items.length, Math.ceil((top + height) / ROW) + SPARE);
  const nearEnd = last + NEAR_END >= items.length;
  useEffect(() => {
    if (nearEnd && items.length) onEnd?.();
  }, [nearEnd, items.length]);
  const template = { gridTemplateColumns: [...(onChoose ? [BOX] : []), ...columns.map((column) => column.width)].join(" ") };
  const current = items[active];
  const some = Boolean(chosen?.size) && items.some((item) => chosen?.has(keyOf(item)));
  const every = some && items.every((item) => chosen?.has(keyOf(item)));
  return (
    <div
      class="grid" role="grid" aria-label={label} aria-rowcount={items.length + 1} aria-colcount={columns.length + (onChoose ? 1 : 0)}
      tabIndex={0} aria-activedescendant={current ? `row-${keyOf(current)}` : undefined} aria-multiselectable="true"
    >
      <div role="rowgroup">
        <div class="grid-row grid-head" role="row" aria-rowindex={1} style={template}>
          {onChoose ? (
            <span role="columnheader">
              <label class="grid-box">
                <input
                  type="checkbox" aria-label={`select all ${label} shown`} checked={every} ref={(box) => { if (box) box.indeterminate = some && !every; }}
                  onChange={() => onChooseAll?.(!every)}
                />
              </label>
            </span>
          ) : null}
          {columns.map((column) => (
            <span key={column.name} role="columnheader" class={column.right ? "right" : ""} aria-sort={column.sort && column.sort === sorted?.key ? (sorted.falls ? "descending" : "ascending") : undefined}>
              {column.sort && onSort ? (
                <button type="button" class="head" title={`sort by ${column.name.toLowerCase()}`} onClick={() => onSort(column.sort ?? "")}>
                  {column.name}<span aria-hidden="true">{column.sort === sorted?.key ? (sorted.falls ? " ↓" : " ↑") : ""}</span>
                </button>
              ) : column.name}
            </span>
          ))}
        </div>
      </div>
      <div class="grid-body" role="rowgroup" tabIndex={0} ref={body} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <div class="grid-space" role="presentation" style={{ height: `${items.length * ROW}px` }}>
          {items.slice(first, last).map((item, offset) => {
            const index = first + offset;
            const key = keyOf(item);
            const picked = chosen?.has(key) ?? false;
            return (
              <div
                key={key} id={`row-${key}`} role="row" aria-rowindex={index + 2} aria-selected={picked}
                class={`grid-row${index === active ? " active" : ""}${picked ? " chosen" : ""}`}
                style={{ ...template, transform: `translateY(${index * ROW}px)` }}
                onClick={() => {
                  onActive(index);
                  onOpen(item);
                }}
              >
                {onChoose ? (
                  <span role="gridcell" onClick={(event) => event.stopPropagation()}>
                    <label class="grid-box">
                      <input type="checkbox" tabIndex={-1} aria-label={`select ${nameOf(item)}`} checked={picked} onChange={() => onChoose(item)} />
                    </label>
                  </span>
                ) : null}
                {columns.map((column) => (
                  <span key={column.name} role="gridcell" class={column.right ? "right" : ""} title={column.title?.(item)}>{column.cell(item)}</span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
