// The support points, and the way back.

const REMEMBERED = 200;

export class Points {
  #past = [];
  #next = 1;

  /** `changed` is called after every change. */
  constructor(changed) {
    this.changed = changed;
    this.list = [];
    this.selected = null;
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  find(id) {
    return this.list.find((point) => point.id === id);
  }

  /** Keeps what is there now, for `undo`. */
  remember() {
    this.#past.push(this.list.map((point) => ({ ...point })));
    if (this.#past.length > REMEMBERED) this.#past.shift();
  }

  add(x, y) {
    this.remember();
    const point = { id: this.#next++, x, y };
    this.list.push(point);
    this.selected = point.id;
    this.changed();
    return point;
  }

  /** Moves a point; whoever drags calls `remember` first, so that one drag is one step back. */
  move(id, x, y) {
    const point = this.find(id);
    if (!point) return;
    point.x = x;
    point.y = y;
    this.changed();
  }

  remove(id) {
    if (!this.find(id)) return;
    this.remember();
    this.list = this.list.filter((point) => point.id !== id);
    if (this.selected === id) this.selected = null;
    this.changed();
  }

  select(id) {
    this.selected = id;
    this.changed();
  }

  replace(pairs) {
    this.remember();
    this.list = pairs.map(([x, y]) => ({ id: this.#next++, x, y }));
    this.selected = null;
    this.changed();
  }

  /** Begins anew, with no way back. */
  reset() {
    this.replace([]);
    this.#past = [];
    this.changed();
  }

  undo() {
    if (!this.canUndo) return;
    this.list = this.#past.pop();
    this.selected = null;
    this.changed();
  }
}
