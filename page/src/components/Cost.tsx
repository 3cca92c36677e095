import { useState } from "preact/hooks";
import { look, number } from "../format";
import type { Board } from "../types";
import { axis, Chart, placeX, placeY } from "./Chart";
import { scaleOf } from "./Whisker";

/** What an explanation costs against how faithful it is. */
export function Cost({ board }: { board: Board }) {
  const ranked = board.metrics.map((metric, column) => ({ metric, column })).filter(({ metric }) => metric.higher !== null);
  const [chosen, setChosen] = useState(Math.max(0, ranked.findIndex(({ metric }) => metric.decides)));
  const current = ranked[chosen];
  if (!current) return null;
  const points = board.explainers.flatMap((explainer, row) => {
    const value = board.cells[row]?.[current.column]?.value ?? null;
    return value === null || !explainer.ms ? [] : [{ explainer, value, row, log: Math.log10(explainer.ms) }];
  });
  if (points.length === 0) return null;
  const logs = points.map((point) => point.log);
  const [first, last] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 1e-9)];
  const decades = Array.from({ length: last - first + 1 }, (_, place) => first + place);
  const x = { low: first, high: Math.max(last, first + 1), label: "milliseconds per example",
    ticks: decades.map((at) => ({ at, text: String(Number((10 ** at).toPrecision(2))) })) };
  const { low, high } = scaleOf(points.map((point) => point.value));
  const y = axis(low, high + 0.05 * (high - low), current.metric.short);
  return (
    <figure>
      <label>
        Faithfulness by{" "}
        <select value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
          {ranked.map(({ metric }, place) => <option key={metric.name} value={place}>{metric.name}</option>)}
        </select>
      </label>
      <Chart x={x} y={y} label={`Cost against ${current.metric.name}`}>
        {points.map(({ explainer, value, row, log }) => {
          const right = placeX(x, log) > 400;
          return (
            <g key={explainer.name} style={{ color: look(row).color }}>
              <circle cx={placeX(x, log)} cy={placeY(y, value)} r="5"><title>{`${explainer.name}: ${number(value)}, ${number(explainer.ms, 1)} ms`}</title></circle>
              <text x={placeX(x, log) + (right ? -8 : 8)} y={placeY(y, value) + 4} text-anchor={right ? "end" : "start"}>{explainer.short}</text>
            </g>
          );
        })}
      </Chart>
      <figcaption>
        {current.metric.higher ? "Best is at the top left: faithful and cheap." : "Best is at the bottom left: faithful and cheap."}
      </figcaption>
    </figure>
  );
}
