import type { TokenMatrix } from "../api";
import { signed, tokenName } from "../format";
import { Wide } from "./Wide";

const LONG = 24; // letters of a unit that are shown: a passage would make its column as wide as the screen

/** Which units (columns) push toward which token of what was written (rows). */
export function TokenTable({ matrix }: { matrix: TokenMatrix }) {
  const largest = Math.max(...matrix.scores.flat().map((score) => Math.abs(score ?? 0)), 0);
  const long = matrix.units.some((unit) => unit.length > LONG);
  return (
    <section class="card">
      <h4 title={matrix.explainer}>{matrix.explainer.split("(")[0]}</h4>
      <Wide label={`Scores of every token by ${matrix.explainer}`}>
        <table class="matrix">
          <thead><tr><td />{matrix.units.map((unit, place) => (
            <th scope="col" key={place} class={long ? "long" : ""} title={unit}>{long ? `${place + 1}. ${short(unit)}` : unit}</th>
          ))}</tr></thead>
          <tbody>
            {matrix.targets.map((token, row) => (
              <tr key={row}>
                <th scope="row">{tokenName(token)}</th>
                {matrix.scores[row]?.map((score, column) => (
                  <td key={column} class={(score ?? 0) < 0 ? "against" : ""}
                    style={{ "--strength": largest > 0 ? (Math.abs(score ?? 0) / largest).toFixed(2) : "0" }}>
                    {score === null ? "–" : signed(score)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      <p class="muted">Each row is a token that the model wrote, each column a {matrix.unit_kind} that it read before. Colors are relative to the
        largest score in the table.</p>
    </section>
  );
}

function short(unit: string): string {
  const words = unit.trim().replace(/\s+/g, " ");
  return words.length > LONG ? `${words.slice(0, LONG - 1)}…` : words;
}
