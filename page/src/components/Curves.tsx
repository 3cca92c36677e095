import { useState } from "preact/hooks";
import type { Board } from "../types";
import { axis, percentTick } from "./Chart";
import { Lines } from "./Lines";

/** The mean probability of the class explained as units are erased (or alone kept), with bands of 95 %. */
export function Curves({ board }: { board: Board }) {
  const [place, setPlace] = useState(() => Math.max(0, board.curves.findIndex(({ metric }) => metric === board.slider)));
  const curve = board.curves[place];
  if (!curve) return null;
  const values = Object.values(curve.lines).flatMap((line) => [...line.low, ...line.high]);
  const inside = values.every((value) => value >= 0 && value <= 1);
  const x = axis(0, 1, curve.kept ? "share of units kept, most important first" : "share of units erased, most important first", percentTick);
  const y = inside
    ? axis(0, 1, "probability of the class", percentTick)
    : axis(Math.min(...values), Math.max(...values), "value");
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
      </label>
      <Lines key={place} x={x} y={y} lines={lines} label={`Curves of ${curve.metric}`} />
      <figcaption>
        {curve.kept
          ? "A faithful explanation brings the probability back with few units: the curve rises early."
          : "A faithful explanation makes the probability fall early: the lower the curve, the better."}{" "}
        Bands are 95 % intervals over examples{board.seeds > 1 && `, each averaged over up to ${board.seeds} seeds`}.
      </figcaption>
    </figure>
  );
}
