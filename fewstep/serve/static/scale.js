// From values to pixels and back, and where to put ticks.

/** A linear scale. */
export function linear([low, high], [from, to]) {
  const at = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  at.back = (pixel) => low + ((pixel - from) / (to - from || 1)) * (high - low);
  at.ticks = (count) => linearTicks(low, high, count);
  return at;
}

/** A logarithmic scale. */
export function logarithmic([low, high], [from, to]) {
  const inner = linear([Math.log10(low), Math.log10(high)], [from, to]);
  const at = (value) => inner(Math.log10(Math.max(value, low / 10)));
  at.back = (pixel) => 10 ** inner.back(pixel);
  at.ticks = (count) => logTicks(low, high, count);
  return at;
}

function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((by) => by * power).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high, count) {
  for (const parts of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const part of parts) {
        const value = part * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push(Number(value.toPrecision(6)));
      }
    }
    if (ticks.length <= count + 1) return ticks.length > 1 ? ticks : linearTicks(low, high, count);
  }
  const all = [];
  const every = Math.ceil((Math.log10(high) - Math.log10(low)) / Math.max(1, count));
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power += every) all.push(10 ** power);
  return all;
}

/** A line through points as the text of an SVG path; a value that is not finite breaks it. */
export function path(xs, ys) {
  let text = "";
  let pen = "M";
  for (let i = 0; i < xs.length; i++) {
    if (!Number.isFinite(ys[i])) {
      pen = "M";
      continue;
    }
    text += `${pen}${xs[i].toFixed(1)} ${ys[i].toFixed(1)}`;
    pen = "L";
  }
  return text;
}

/** The area between two lines. */
export function band(xs, low, high) {
  const upper = path(xs, high);
  const lower = path([...xs].reverse(), [...low].reverse());
  return upper && lower ? `${upper}L${lower.slice(1)}Z` : "";
}
