// What a terminal shows: the lines, the cursor and the modes that programs set. Pure.
import { Line } from "./lines.ts";
import { Parser, type Sequence } from "./parser.ts";
import { PLAIN, rendered, type Style, StyleTable } from "./style.ts";
import { isDeceptive, widthOf } from "./widths.ts";

const TAB = 8;
const KEPT_LINES = 1000;
// A program can ask where the cursor is; it gets this many answers at most to what it wrote at once.
const REPLIES_MAX = 16;
// Line drawing of the second character set, from ` to ~.
const DRAWING = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

interface Saved {
  row: number;
  column: number;
  style: Style;
  drawing: boolean;
}

const HOME: Saved = { row: 0, column: 0, style: PLAIN, drawing: false };

export class Screen {
  rows: number;
  columns: number;
  /** Lines that have left the screen at its top. */
  past: Line[] = [];
  lines: Line[];
  row = 0;
  column = 0;
  cursorShown = true;
  arrowsAsApplication = false;
  pasteIsMarked = false;
  readonly styles = new StyleTable();
  readonly #parser: Parser;
  #style: Style = PLAIN;
  #number = 0;
  #wraps = true;
  /** The last column has been written; the next character begins a line. */
  #full = false;
  #drawing = false;
  #shifted = false;
  #origin = false;
  #inserts = false;
  #top = 0;
  #bottom: number;
  #saved: Saved = HOME;
  #main: { lines: Line[]; saved: Saved } | null = null;
  #replies: string[] = [];
  #last = " ";

  constructor(rows: number, columns: number) {
    this.rows = rows;
    this.columns = columns;
    this.#bottom = rows - 1;
    this.lines = this.#blank(rows);
    this.#parser = new Parser({
      print: (char) => this.#print(char),
      control: (code) => this.#control(code),
      escape: (intermediate, final) => this.#escape(intermediate, final),
      sequence: (one) => this.#sequence(one),
    });
  }

  /** Show output; the answers that the program asked for, which have nothing of what it wrote. */
  write(text: string): string {
    this.#replies = [];
    this.#parser.write(text);
    return this.#replies.join("");
  }

  resize(rows: number, columns: number): void {
    for (const line of [...this.lines, ...(this.#main?.lines ?? [])]) line.resize(columns);
    this.columns = columns;
    const kept = this.#main === null;
    while (this.lines.length > rows) {
      // What is below the cursor is empty more often than not.
      if (this.row < this.lines.length - 1) this.lines.pop();
      else {
        this.#leave(this.lines.shift(), kept);
        this.row -= 1;
      }
    }
    while (this.lines.length < rows) this.lines.push(new Line(columns));
    if (this.#main) this.#main.lines = fitted(this.#main.lines, rows, columns);
    this.rows = rows;
    this.#top = 0;
    this.#bottom = rows - 1;
    this.#moveTo(this.row, this.column);
  }

  text(): string {
    return [...this.past, ...this.lines].map((line) => line.text()).join("\n").trimEnd();
  }

  #blank(count: number): Line[] {
    return Array.from({ length: count }, () => new Line(this.columns));
  }

  get #line(): Line {
    return this.lines[this.row] as Line;
  }

  /** The style of what is erased: a colour behind it stays. */
  get #erased(): number {
    return this.#style.bg === PLAIN.bg ? 0 : this.styles.numberOf({ ...PLAIN, bg: this.#style.bg });
  }

  #leave(line: Line | undefined, kept: boolean): void {
    if (!line || !kept) return;
    this.past.push(line);
    if (this.past.length > KEPT_LINES) this.past.shift();
  }

  #moveTo(row: number, column: number): void {
    this.row = Math.min(this.rows - 1, Math.max(0, row));
    this.column = Math.min(this.columns - 1, Math.max(0, column));
    this.#full = false;
  }

  #print(given: string): void {
    let char = isDeceptive(given) ? "\ufffd" : given;
    if (this.#drawing && char >= "`" && char <= "~") char = DRAWING[char.charCodeAt(0) - 0x60] ?? char;
    const width = widthOf(char);
    if (width === 0) {
      this.#line.join(this.#full ? this.column : Math.max(0, this.column - 1), char);
      return;
    }
    const fits = Math.min(width, this.columns) as 1 | 2;
    if (this.#full || this.column + fits > this.columns) {
      if (this.#wraps) {
        this.column = 0;
        this.#feed();
      } else this.column = this.columns - fits;
      this.#full = false;
    }
    if (this.#inserts) this.#line.insert(this.column, fits, 0);
    this.#line.set(this.column, char, fits, this.#number);
    this.#last = char;
    if (this.column + fits >= this.columns) {
      this.column = this.columns - 1;
      this.#full = true;
    } else this.column += fits;
  }

  #feed(): void {
    this.#full = false;
    if (this.row === this.#bottom) this.#scrollUp(1);
    else if (this.row < this.rows - 1) this.row += 1;
  }

  #scrollUp(count: number): void {
    const kept = this.#main === null && this.#top === 0;
    for (let done = 0; done < Math.min(count, this.#bottom - this.#top + 1); done += 1) {
      const [left] = this.lines.splice(this.#top, 1);
      this.#leave(left, kept);
      this.lines.splice(this.#bottom, 0, new Line(this.columns, this.#erased));
    }
  }

  #scrollDown(count: number): void {
    for (let done = 0; done < Math.min(count, this.#bottom - this.#top + 1); done += 1) {
      this.lines.splice(this.#bottom, 1);
      this.lines.splice(this.#top, 0, new Line(this.columns, this.#erased));
    }
  }

  #control(code: number): void {
    switch (code) {
      case 0x08:
        this.#moveTo(this.row, this.column - 1);
        return;
      case 0x09:
        this.#moveTo(this.row, (Math.floor(this.column / TAB) + 1) * TAB);
        return;
      case 0x0a:
      case 0x0b:
      case 0x0c:
        this.#feed();
        return;
      case 0x0d:
        this.#moveTo(this.row, 0);
        return;
      case 0x0e:
      case 0x0f:
        this.#drawing = code === 0x0e && this.#shifted;
    }
  }

  #escape(intermediate: string, final: string): void {
    if (intermediate === "(") this.#drawing = final === "0";
    if (intermediate === ")") this.#shifted = final === "0";
    if (intermediate === "#" && final === "8") for (const line of this.lines) for (let at = 0; at < this.columns; at += 1) line.set(at, "E", 1, 0);
    if (intermediate) return;
    switch (final) {
      case "7":
        this.#save();
        return;
      case "8":
        this.#restore();
        return;
      case "D":
        this.#feed();
        return;
      case "E":
        this.column = 0;
        this.#feed();
        return;
      case "M":
        if (this.row === this.#top) this.#scrollDown(1);
        else this.#moveTo(this.row - 1, this.column);
        return;
      case "c":
        this.#reset();
    }
  }

  #save(): void {
    this.#saved = { row: this.row, column: this.column, style: this.#style, drawing: this.#drawing };
  }

  #restore(): void {
    this.#setStyle(this.#saved.style);
    this.#drawing = this.#saved.drawing;
    this.#moveTo(this.#saved.row, this.#saved.column);
  }

  #reset(): void {
    this.lines = this.#blank(this.rows);
    this.#main = null;
    this.#saved = HOME;
    this.#setStyle(PLAIN);
    this.#drawing = this.#shifted = this.#origin = this.#inserts = this.arrowsAsApplication = this.pasteIsMarked = false;
    this.#wraps = this.cursorShown = true;
    this.#top = 0;
    this.#bottom = this.rows - 1;
    this.#moveTo(0, 0);
  }

  #setStyle(style: Style): void {
    this.#style = style;
    this.#number = this.styles.numberOf(style);
  }

  #sequence({ prefix, numbers, final }: Sequence): void {
    if (prefix === "?") {
      if (final === "h" || final === "l") for (const number of numbers) this.#mode(number, final === "h");
      return;
    }
    if (prefix) {
      if (prefix === ">" && final === "c") this.#reply("\u001b[>0;0;0c");
      return;
    }
    const count = Math.max(1, numbers[0] ?? 1);
    if (!this.#move(final, count, numbers)) this.#edit(final, count, numbers);
  }

  #move(final: string, count: number, numbers: readonly number[]): boolean {
    const first = this.#origin ? this.#top : 0;
    switch (final) {
      case "A":
        this.#moveTo(Math.max(this.row >= this.#top ? this.#top : 0, this.row - count), this.column);
        return true;
      case "B":
      case "e":
        this.#moveTo(Math.min(this.row <= this.#bottom ? this.#bottom : this.rows - 1, this.row + count), this.column);
        return true;
      case "C":
      case "a":
        this.#moveTo(this.row, this.column + count);
        return true;
      case "D":
        this.#moveTo(this.row, this.column - count);
        return true;
      case "E":
        this.#moveTo(this.row + count, 0);
        return true;
      case "F":
        this.#moveTo(this.row - count, 0);
        return true;
      case "G":
      case "`":
        this.#moveTo(this.row, count - 1);
        return true;
      case "d":
        this.#moveTo(first + count - 1, this.column);
        return true;
      case "H":
      case "f":
        this.#moveTo(first + count - 1, Math.max(1, numbers[1] ?? 1) - 1);
        return true;
      case "I":
        this.#moveTo(this.row, (Math.floor(this.column / TAB) + count) * TAB);
        return true;
      case "Z":
        this.#moveTo(this.row, (Math.ceil(this.column / TAB) - count) * TAB);
        return true;
      case "s":
        this.#save();
        return true;
      case "u":
        this.#restore();
        return true;
      default:
        return false;
    }
  }

  #edit(final: string, count: number, numbers: readonly number[]): void {
    const number = numbers[0] ?? 0;
    switch (final) {
      case "J":
        return this.#eraseScreen(number);
      case "K":
        return this.#line.erase(number === 0 ? this.column : 0, number === 1 ? this.column + 1 : this.columns, this.#erased);
      case "X":
        return this.#line.erase(this.column, Math.min(this.columns, this.column + count), this.#erased);
      case "@":
        return this.#line.insert(this.column, count, this.#erased);
      case "P":
        return this.#line.remove(this.column, count, this.#erased);
      case "L":
      case "M":
        return this.#editLines(final, count);
      case "S":
        return this.#scrollUp(count);
      case "T":
        return this.#scrollDown(count);
      case "b":
        for (let done = 0; done < Math.min(count, this.columns); done += 1) this.#print(this.#last);
        return;
      case "m":
        return this.#setStyle(rendered(this.#style, numbers));
      case "r":
        return this.#setRegion(number || 1, numbers[1] || this.rows);
      case "h":
      case "l":
        if (number === 4) this.#inserts = final === "h";
        return;
      case "n":
        if (number === 5) this.#reply("\u001b[0n");
        if (number === 6) this.#reply(`\u001b[${this.row + 1};${this.column + 1}R`);
        return;
      case "c":
        if (number === 0) this.#reply("\u001b[?1;2c");
    }
  }

  #reply(text: string): void {
    if (this.#replies.length < REPLIES_MAX) this.#replies.push(text);
  }

  #eraseScreen(number: number): void {
    if (number === 3) {
      this.past = [];
      return;
    }
    const style = this.#erased;
    const from = number === 0 ? this.row + 1 : 0;
    const to = number === 1 ? this.row : this.rows;
    for (let row = from; row < to; row += 1) this.lines[row]?.erase(0, this.columns, style);
    if (number === 0) this.#line.erase(this.column, this.columns, style);
    if (number === 1) this.#line.erase(0, this.column + 1, style);
  }

  #editLines(final: string, count: number): void {
    if (this.row < this.#top || this.row > this.#bottom) return;
    for (let done = 0; done < Math.min(count, this.#bottom - this.row + 1); done += 1) {
      this.lines.splice(final === "L" ? this.#bottom : this.row, 1);
      this.lines.splice(final === "L" ? this.row : this.#bottom, 0, new Line(this.columns, this.#erased));
    }
    this.#moveTo(this.row, 0);
  }

  #setRegion(first: number, last: number): void {
    const bottom = Math.min(last, this.rows) - 1;
    if (first - 1 >= bottom) return;
    this.#top = first - 1;
    this.#bottom = bottom;
    this.#moveTo(this.#origin ? this.#top : 0, 0);
  }

  #mode(number: number, on: boolean): void {
    switch (number) {
      case 1:
        this.arrowsAsApplication = on;
        return;
      case 6:
        this.#origin = on;
        this.#moveTo(on ? this.#top : 0, 0);
        return;
      case 7:
        this.#wraps = on;
        return;
      case 25:
        this.cursorShown = on;
        return;
      case 47:
      case 1047:
      case 1049:
        this.#useOther(on);
        return;
      case 2004:
        this.pasteIsMarked = on;
    }
  }

  /** Whether a full-screen program draws; what was before is not above its screen. */
  get isFull(): boolean {
    return this.#main !== null;
  }

  /** Full-screen programs draw on a screen of their own; the one before returns with its cursor. */
  #useOther(on: boolean): void {
    if (on && this.#main === null) {
      this.#save();
      this.#main = { lines: this.lines, saved: this.#saved };
      this.lines = this.#blank(this.rows);
    } else if (!on && this.#main !== null) {
      this.lines = this.#main.lines;
      this.#saved = this.#main.saved;
      this.#main = null;
      this.#restore();
    }
    this.#top = 0;
    this.#bottom = this.rows - 1;
  }
}

function fitted(lines: Line[], rows: number, columns: number): Line[] {
  const kept = lines.slice(0, rows);
  while (kept.length < rows) kept.push(new Line(columns));
  return kept;
}
