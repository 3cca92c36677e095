import { useState } from "preact/hooks";
import type { Board } from "../types";
import { axis, percentTick } from "./Chart";
import { Lines } from "./Lines";

/** The mean probability of the class explained as units are erased (or alone kept), with bands of 95 %. */
export function Curves({ board }: { board: Board }) {
  const [whole, setWhole] = useState(false);
  const [place, setPlace] = useState(() => Math.max(0, board.curves.findIndex(({ metric }) => metric === board.slider)));
  const curve = board.curves[place];
  if (!curve) return null;
  const values = Object.values(curve.lines).flatMap((line) => [...line.low, ...line.high]);
  const inside = values.every((value) => value >= 0 && value <= 1);
  const [low, high] = inside && whole ? [0, 1] : around(values, inside);
  const x = axis(0, 1, curve.kept ? "share of units kept, most important first" : "share of units erased, most important first", percentTick);
  const y = inside ? axis(low, high, "probability of the class", percentTick) : axis(low, high, "value");
  const lines = board.explainers.flatMap(({ name, short }) => {
    const line = curve.lines[name];
    return line ? [{ name, shown: short, at: line.ratios, values: line.mean, low: line.low, high: line.high }] : [];
  });
  return (
    <figure>
      <label>
        Erased as in{" "}
        <select value={place} onChange={(event) => setPlace(Number(event.currentTarget.value))}>
          {board.curves.map(({ metric }, number) => <option key={metric} value={number}>{metric}</option>)}
        </select>
      </label>{" "}
      {inside && <label><input type="checkbox" checked={whole} onChange={() => setWhole(!whole)} /> Show the whole scale, 0 to 100 %</label>}
      <Lines key={place} x={x} y={y} lines={lines} label={`Curves of ${curve.metric}`} />
      <figcaption>
        {curve.kept
          ? "A faithful explanation brings the probability back with few units: the curve rises early."
          : "A faithful explanation makes the probability fall early: the lower the curve, the better."}{" "}
        Bands are 95 % intervals over examples{board.seeds > 1 && `, each averaged over up to ${board.seeds} seeds`}.
        {low > 0 && ` The vertical axis begins at ${percentTick(low)}.`}
      </figcaption>
    </figure>
  );
}

/** What the values take up, with some room and round ends; of probabilities never beyond 0 and 1. */
function around(values: number[], inside: boolean): [number, number] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const step = 10 ** Math.floor(Math.log10(Math.max(most - least, 1e-3)));
  const half = most - least < 2 * step ? step / 4 : step / 2;
  const [low, high] = [Math.floor(least / half) * half, Math.ceil(most / half) * half];
  return inside ? [Math.max(0, low), Math.min(1, high)] : [low, high];
}
