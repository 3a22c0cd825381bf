// A few characters of our own, for those who would rather not draw: polylines on a square from 0 to 1.

const arc = (x, y, r, from, to, steps = 18, flat = 1) =>
  Array.from({ length: steps + 1 }, (_, n) => {
    const angle = ((from + ((to - from) * n) / steps) * Math.PI) / 180;
    return [x + r * Math.cos(angle), y + r * flat * Math.sin(angle)];
  });

/** Each a list of strokes. */
export const SHAPES = [
  [arc(0.5, 0.5, 0.3, 0, 360)],
  [[[0.5, 0.2], [0.2, 0.78], [0.8, 0.78], [0.5, 0.2]]],
  [[[0.22, 0.22], [0.78, 0.78]], [[0.78, 0.22], [0.22, 0.78]]],
  [[[0.25, 0.2], [0.25, 0.78], [0.75, 0.78]]],
  [[[0.5, 0.18], [0.5, 0.82]], [[0.22, 0.36], [0.78, 0.36]]],
  [[[0.2, 0.25], [0.8, 0.25], [0.25, 0.78], [0.8, 0.78]]],
  [[[0.25, 0.22], [0.25, 0.78], [0.75, 0.78], [0.75, 0.22], [0.25, 0.22]]],
  [[[0.2, 0.2], [0.36, 0.78], [0.5, 0.4], [0.64, 0.78], [0.8, 0.2]]],
  [arc(0.5, 0.35, 0.16, 0, 360), [[0.5, 0.51], [0.5, 0.84]], [[0.32, 0.66], [0.68, 0.66]]],
  [arc(0.42, 0.32, 0.2, 180, 420), arc(0.5, 0.66, 0.18, -110, 130)],
  [[[0.3, 0.2], [0.3, 0.8]], [[0.7, 0.2], [0.7, 0.8]], [[0.3, 0.5], [0.7, 0.5]]],
  [arc(0.5, 0.3, 0.3, 0, 180), [[0.5, 0.6], [0.5, 0.85]]],
  [[[0.2, 0.5], [0.8, 0.5]], [[0.6, 0.28], [0.8, 0.5], [0.6, 0.72]]],
  [[[0.3, 0.2], [0.3, 0.8]], [[0.3, 0.22], [0.72, 0.34], [0.3, 0.5]]],
  [Array.from({ length: 40 }, (_, n) => [0.5 + (0.03 + 0.0068 * n) * Math.cos(n / 3), 0.5 + (0.03 + 0.0068 * n) * Math.sin(n / 3)])],
  [[[0.2, 0.3], [0.8, 0.3]], [[0.2, 0.5], [0.8, 0.5]], [[0.2, 0.7], [0.8, 0.7]]],
  [arc(0.36, 0.5, 0.17, 0, 360), arc(0.7, 0.5, 0.13, 0, 360)],
  [[[0.5, 0.2], [0.5, 0.8]], [[0.28, 0.42], [0.5, 0.2], [0.72, 0.42]], [[0.28, 0.64], [0.5, 0.42], [0.72, 0.64]]],
  [[[0.25, 0.75], [0.25, 0.25], [0.75, 0.75], [0.75, 0.25]]],
  [arc(0.5, 0.42, 0.26, 150, 390), [[0.27, 0.55], [0.2, 0.8]], [[0.73, 0.55], [0.8, 0.8]]],
];

/** The same shape as another hand would draw it: a little turned, stretched, moved and shaky. */
export function byHand(strokes, random = Math.random) {
  const some = (size) => (random() - 0.5) * 2 * size;
  const [turn, wide, high, skew, right, down] = [some(0.16), 1 + some(0.12), 1 + some(0.12), some(0.12), some(0.05), some(0.05)];
  return strokes.map((stroke) => {
    const [phase, shake] = [random() * 6, 0.008 + random() * 0.008];
    return stroke.map(([x, y], n) => {
      const [u, v] = [(x - 0.5) * wide + (y - 0.5) * skew, (y - 0.5) * high];
      const moved = [u * Math.cos(turn) - v * Math.sin(turn), u * Math.sin(turn) + v * Math.cos(turn)];
      return [0.5 + moved[0] + right + shake * Math.sin(1.7 * n + phase), 0.5 + moved[1] + down + shake * Math.cos(1.3 * n + phase)];
    });
  });
}

/** So many different shapes in random order. */
export function someShapes(count) {
  const order = SHAPES.map((shape) => [Math.random(), shape]).sort(([a], [b]) => a - b);
  return order.slice(0, count).map(([, shape]) => shape);
}
