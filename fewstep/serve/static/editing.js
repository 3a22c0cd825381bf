// Hands on the plot: pointer and keyboard put points down, move and remove them.

import { number } from "./dom.js";

const TWICE = 400; // milliseconds between the two halves of a double click
const SAME = 4; // pixels within which a click is the second half of one that has put a point down already
const NEAR = 14; // pixels within which the keyboard's cursor takes hold of a point

/** Lets pointer and keys edit `points` on `plot`; `say` speaks to a screen reader. */
export function makeEditable(plot, points, say) {
  withPointer(plot, points);
  withKeys(plot, points, say);
}

/** A point within so many pixels of a place. */
const nearest = (plot, points, at, reach) => points.list.find((point) =>
  Math.hypot(plot.x(point.x) - plot.x(at.x), plot.y(point.y) - plot.y(at.y)) < reach);

const idAt = (event) => Number(event.target.closest("[data-point]")?.dataset.point) || null;

function withPointer(plot, points) {
  let held = null; // the point under the pointer, from pressing to letting go
  let pressed = null; // an empty place that was pressed
  let last = { id: null, at: 0 }; // the point that was clicked last; one that was just put down does not count
  const { root } = plot;

  root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const id = idAt(event);
    pressed = id ? null : { x: event.clientX, y: event.clientY };
    if (!id) return;
    const point = points.find(id);
    const at = plot.at(event);
    held = { id, byX: point.x - at.x, byY: point.y - at.y, moved: false, x: event.clientX, y: event.clientY };
    root.setPointerCapture(event.pointerId);
    points.select(id);
  });

  root.addEventListener("pointermove", (event) => {
    if (!held) return;
    if (!held.moved) {
      if (Math.hypot(event.clientX - held.x, event.clientY - held.y) < 3) return;
      held.moved = true;
      points.remember();
    }
    const at = plot.at(event);
    points.move(held.id, at.x + held.byX, at.y + held.byY);
  });

  root.addEventListener("pointerup", (event) => {
    if (pressed && Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) < 8) {
      const { x, y } = plot.at(event);
      if (!nearest(plot, points, { x, y }, SAME)) points.add(x, y);
    }
    if (held && !held.moved) {
      const twice = last.id === held.id && event.timeStamp - last.at < TWICE;
      last = { id: held.id, at: event.timeStamp };
      if (twice) points.remove(held.id);
    }
    held = pressed = null;
  });

  root.addEventListener("pointercancel", () => { held = pressed = null; });

  root.addEventListener("contextmenu", (event) => {
    const id = idAt(event);
    if (!id) return;
    event.preventDefault();
    held = null;
    points.remove(id);
  });
}

function withKeys(plot, points, say) {
  let cursor = null;
  let carried = null; // the id of a point that the arrows move
  const { root } = plot;
  const show = () => plot.drawCursor(cursor);
  const told = ({ x, y }) => `x ${number(x)}, y ${number(y)}`;
  const near = () => nearest(plot, points, cursor, NEAR);
  const keep = (value, [low, high]) => Math.min(high, Math.max(low, Number(value.toFixed(6))));

  function step(dx, dy, large) {
    const by = large ? 10 : 50;
    const { x, y } = plot.range;
    cursor = { x: keep(cursor.x + (dx * (x[1] - x[0])) / by, x), y: keep(cursor.y + (dy * (y[1] - y[0])) / by, y) };
    if (carried && points.find(carried)) points.move(carried, cursor.x, cursor.y);
    say(carried ? `Point at ${told(cursor)}` : told(cursor));
  }

  function enter() {
    const found = near();
    if (carried) {
      say(`Put down at ${told(cursor)}`);
      carried = null;
    } else if (found) {
      points.remember();
      points.select(found.id);
      carried = found.id;
      cursor = { x: found.x, y: found.y };
      say(`Picked up the point at ${told(found)}; arrows move it, Enter puts it down`);
    } else {
      points.add(cursor.x, cursor.y);
      say(`Point ${points.list.length} at ${told(cursor)}`);
    }
  }

  function next(by) {
    if (!points.list.length) return say("There are no points");
    const inOrder = [...points.list].sort((a, b) => a.x - b.x);
    const now = inOrder.findIndex((point) => point.id === points.selected);
    const to = inOrder[(now + by + inOrder.length + (now < 0 && by < 0 ? 1 : 0)) % inOrder.length];
    carried = null;
    cursor = { x: to.x, y: to.y };
    points.select(to.id);
    return say(`Point at ${told(to)}`);
  }

  function remove() {
    const id = carried ?? points.selected ?? near()?.id;
    carried = null;
    if (id == null) return say("No point is chosen");
    points.remove(id);
    return say(`Removed; ${points.list.length} left`);
  }

  const keys = {
    ArrowLeft: (large) => step(-1, 0, large),
    ArrowRight: (large) => step(1, 0, large),
    ArrowUp: (large) => step(0, 1, large),
    ArrowDown: (large) => step(0, -1, large),
    Enter: enter,
    " ": enter,
    n: () => next(1),
    p: () => next(-1),
    Delete: remove,
    Backspace: remove,
    Escape: () => { carried = null; },
  };

  root.addEventListener("keydown", (event) => {
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    cursor ??= middle(plot.range);
    act(event.shiftKey);
    show();
  });
  root.addEventListener("blur", () => { cursor = carried = null; show(); });
  root.addEventListener("pointerdown", () => { cursor = carried = null; show(); });
}

const middle = ({ x, y }) => ({ x: (x[0] + x[1]) / 2, y: (y[0] + y[1]) / 2 });
