import { useMemo, useState } from "preact/hooks";
import { number } from "../format";
import type { Board, Cell, Metric } from "../types";
import { Name } from "./Name";
import { Term } from "./Term";
import { Wide } from "./Wide";
import { across, scaleOf, Whisker } from "./Whisker";

type Order = { column: number | "place" | "ms" | "passes"; falling: boolean };

/** Explainers by metrics; a click on a heading sorts, the first column stays in place. */
export function Leaderboard({ board, glossary }: { board: Board; glossary: Record<string, string> }) {
  const [order, setOrder] = useState<Order>({ column: "place", falling: false });
  const rows = useMemo(() => sorted(board, order), [board, order]);
  const random = board.explainers.findIndex((explainer) => explainer.name === "random");
  const scales = board.metrics.map((_, column) =>
    scaleOf(board.cells.flatMap((row) => [row[column]?.low, row[column]?.high, row[column]?.value])),
  );
  const best = board.metrics.map((metric, column) => bestOf(metric, board.cells.map((row) => row[column] ?? null)));
  const randomAt = (column: number) => {
    const value = board.cells[random]?.[column]?.value;
    return value == null ? {} : { "--random": String(across(scales[column]!, value) / 100) };
  };
  const sort = (column: Order["column"], falling: boolean) =>
    setOrder(order.column === column ? { column, falling: !order.falling } : { column, falling });
  const head = (column: Order["column"], falling: boolean, shown: string, hint?: string) => (
    <th scope="col" aria-sort={order.column !== column ? undefined : order.falling ? "descending" : "ascending"}>
      <Term meaning={hint} holdsButton>
        <button type="button" class="sort" onClick={() => sort(column, falling)}>
          <Name of={shown} />{order.column === column ? (order.falling ? "\u00a0▾" : "\u00a0▴") : ""}
        </button>
      </Term>
    </th>
  );
  return (
    <Wide label="Leaderboard">
      <table class="board">
        <thead>
          <tr>
            {head("place", false, "explainer", glossary["explainer"])}
            {board.metrics.map((metric, column) =>
              head(column, metric.higher !== false, `${metric.short}${arrow(metric)}`, about(metric)),
            )}
            {head("ms", false, "ms per example")}
            {head("passes", false, "passes", glossary["passes"])}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const explainer = board.explainers[row]!;
            return (
              <tr key={explainer.name}>
                <th scope="row">
                  <Term meaning={explainer.meaning}><Name of={explainer.short} /></Term>
                  {explainer.best && <span class="badge good">use</span>}
                  {explainer.useless && <span class="badge">no better than random</span>}
                </th>
                {board.metrics.map((metric, column) => {
                  const cell = board.cells[row]?.[column] ?? null;
                  if (cell === null || cell.value === null) return <td key={metric.name}>{undefinedOf(cell)}</td>;
                  const weak = explainer.name !== "random" && cell.beats_random === false;
                  const isBest = best[column] === number(cell.value);
                  return (
                    <td key={metric.name} class={weak ? "weak" : ""} style={randomAt(column)}>
                      <span class="value">{isBest ? <b>{number(cell.value)}</b> : number(cell.value)}<sup>{cell.letters}</sup></span>
                      <Whisker {...cell} scale={scales[column]!} best={isBest} weak={weak} />
                    </td>
                  );
                })}
                <td>{number(explainer.ms, explainer.ms !== null && explainer.ms < 10 ? 1 : 0)}</td>
                <td>{number(explainer.passes, 0)}</td>
              </tr>
            );
          })}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row"><Term meaning={glossary["validity"]}>erased inputs</Term></th>
            {board.metrics.map((metric) => (
              <td key={metric.name}>
                {metric.validity && (
                  <Term meaning={`${metric.validity.meaning} ${metric.validity.text}`}>
                    <span class={`stamp ${metric.validity.verdict.split(" ")[0]}`}>{metric.validity.verdict}</span>
                  </Term>
                )}
              </td>
            ))}
            <td /><td />
          </tr>
        </tfoot>
      </table>
    </Wide>
  );
}

function sorted(board: Board, { column, falling }: Order): number[] {
  const places = board.explainers.map((_, row) => row);
  const value = (row: number): number | null => {
    if (column === "place") return row;
    if (column === "ms" || column === "passes") return board.explainers[row]![column];
    return board.cells[row]?.[column]?.value ?? null;
  };
  return places.sort((a, b) => {
    const [first, second] = [value(a), value(b)];
    if (first === null || second === null) return first === second ? a - b : first === null ? 1 : -1;
    return (falling ? second - first : first - second) || a - b;
  });
}

function bestOf(metric: Metric, cells: (Cell | null)[]): string | null {
  const values = cells.flatMap((cell) => (cell?.value == null ? [] : [cell.value]));
  if (metric.higher === null || values.length === 0) return null;
  return number(metric.higher ? Math.max(...values) : Math.min(...values));
}

function arrow(metric: Metric): string {
  return metric.higher === null ? "" : metric.higher ? "\u00a0↑" : "\u00a0↓";
}

function about(metric: Metric): string {
  const only = metric.why_not ? `Only reported: ${metric.why_not}.` : "";
  return [metric.name, metric.meaning, metric.bounds && `Range: ${metric.bounds}.`, metric.pitfalls, only]
    .filter(Boolean).join(" ");
}

function undefinedOf(cell: Cell | null) {
  const why = cell ? Object.keys(cell.undefined).join("; ") : "";
  return <Term meaning={why}>–</Term>;
}
