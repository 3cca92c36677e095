import { useState } from "preact/hooks";
import type { Table } from "../types";
import { Name } from "./Name";
import { Wide } from "./Wide";

/** A table of a study; a click on a heading sorts by it, a third click brings the first order back. */
export function PlainTable({ table }: { table: Table }) {
  const [order, setOrder] = useState<{ column: number; falling: boolean } | null>(null);
  const turn = (column: number) =>
    setOrder(order?.column !== column ? { column, falling: true } : order.falling ? { column, falling: false } : null);
  const rows = order === null ? table.rows : [...table.rows].sort((a, b) => compared(a[order.column], b[order.column], order.falling));
  return (
    <>
      <h2>{table.title}</h2>
      {table.figure && <img class="figure" src={table.figure} alt={`Figure: ${table.title}`} />}
      {table.rows.length > 0 && <Wide label={table.title}>
        <table class="board plain">
          <thead>
            <tr>
              {table.columns.map((column, place) => (
                <th scope="col" key={place} class={column.number ? "" : "words"} aria-sort={order?.column !== place ? undefined : order.falling ? "descending" : "ascending"}>
                  <button type="button" class="sort" onClick={() => turn(place)}>
                    {column.head}{order?.column === place ? (order.falling ? " ▾" : " ▴") : ""}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, place) => (
              <tr key={place}>
                {row.map((cell, column) => column === 0
                  ? <th scope="row" key={column}><Name of={cell.text} /></th>
                  : <td key={column} class={table.columns[column]?.number ? "" : "words"}>{cell.text}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>}
      {table.notes.map((note) => <p class="muted" key={note}>{note}</p>)}
    </>
  );
}

type Cell = Table["rows"][number][number] | undefined;

/** Numbers by size, texts by letters, what is undefined last. */
function compared(a: Cell, b: Cell, falling: boolean): number {
  const sign = falling ? -1 : 1;
  const [first, second] = [a?.value ?? null, b?.value ?? null];
  if (first !== null && second !== null) return sign * (first - second);
  if (first !== null || second !== null) return first === null ? 1 : -1;
  return sign * (a?.text ?? "").localeCompare(b?.text ?? "");
}
