// Lines of characters with their styles. Pure.
let made = 0;

/** Marks that one character carries at most. */
const JOINED_MAX = 8;

export interface Run {
  text: string;
  style: number;
  column: number;
  wide: boolean;
}

/** One line; `version` changes with it, `id` does not. The second column of a wide character is an empty text. */
export class Line {
  readonly id: number;
  version = 0;
  chars: string[];
  styles: number[];

  constructor(columns: number, style = 0) {
    made += 1;
    this.id = made;
    this.chars = new Array<string>(columns).fill(" ");
    this.styles = new Array<number>(columns).fill(style);
  }

  set(column: number, char: string, width: 1 | 2, style: number): void {
    this.#split(column);
    this.#split(column + width);
    this.chars[column] = char;
    this.styles[column] = style;
    if (width === 2) {
      this.chars[column + 1] = "";
      this.styles[column + 1] = style;
    }
    this.version += 1;
  }

  /** Add a mark to the character that is there. */
  join(column: number, mark: string): void {
    const at = this.chars[column] === "" && column > 0 ? column - 1 : column;
    const before = this.chars[at] ?? " ";
    if (before.length < JOINED_MAX) this.chars[at] = before + mark;
    this.version += 1;
  }

  erase(from: number, to: number, style: number): void {
    if (from >= to) return;
    this.#split(from);
    this.#split(to);
    this.chars.fill(" ", from, to);
    this.styles.fill(style, from, to);
    this.version += 1;
  }

  insert(column: number, count: number, style: number): void {
    const columns = this.chars.length;
    const more = Math.min(count, columns - column);
    this.#split(column);
    this.chars.splice(column, 0, ...new Array<string>(more).fill(" "));
    this.styles.splice(column, 0, ...new Array<number>(more).fill(style));
    this.#split(columns);
    this.chars.length = this.styles.length = columns;
    this.version += 1;
  }

  remove(column: number, count: number, style: number): void {
    const columns = this.chars.length;
    const less = Math.min(count, columns - column);
    this.#split(column);
    this.#split(column + less);
    this.chars.splice(column, less);
    this.styles.splice(column, less);
    this.chars.push(...new Array<string>(less).fill(" "));
    this.styles.push(...new Array<number>(less).fill(style));
    this.version += 1;
  }

  resize(columns: number): void {
    const before = this.chars.length;
    if (columns === before) return;
    if (columns < before) {
      this.#split(columns);
      this.chars.length = this.styles.length = columns;
    } else {
      this.chars.push(...new Array<string>(columns - before).fill(" "));
      this.styles.push(...new Array<number>(columns - before).fill(0));
    }
    this.version += 1;
  }

  text(): string {
    return this.chars.join("").trimEnd();
  }

  /** Neighbours that look alike, as one text; a wide character stands alone, so that it takes two columns. */
  runs(cursor = -1): Run[] {
    const found: Run[] = [];
    let alone = true;
    for (let column = 0; column < this.chars.length; column += 1) {
      const text = this.chars[column] ?? " ";
      if (text === "") continue;
      const style = this.styles[column] ?? 0;
      const wide = this.chars[column + 1] === "";
      const apart = column === cursor || wide || text.length > 1;
      const last = found.at(-1);
      if (last && !apart && !alone && last.style === style) last.text += text;
      else found.push({ text, style, column, wide });
      alone = apart;
    }
    return found;
  }

  /** Half of a wide character is none. */
  #split(column: number): void {
    if (column > 0 && column < this.chars.length && this.chars[column] === "") {
      this.chars[column - 1] = " ";
      this.chars[column] = " ";
    }
  }
}
