import type { TokenMatrix } from "../api";
import { signed } from "../format";

/** Which units (columns) push toward which token of what was written (rows). */
export function TokenTable({ matrix }: { matrix: TokenMatrix }) {
  const largest = Math.max(...matrix.scores.flat().map((score) => Math.abs(score ?? 0)), 0);
  return (
    <section class="card">
      <h4 title={matrix.explainer}>{matrix.explainer.split("(")[0]}</h4>
      <div class="wide" tabIndex={0} role="region" aria-label={`Scores of every token by ${matrix.explainer}`}>
        <table class="matrix">
          <thead><tr><td />{matrix.units.map((unit, place) => <th scope="col" key={place}>{unit}</th>)}</tr></thead>
          <tbody>
            {matrix.targets.map((token, row) => (
              <tr key={row}>
                <th scope="row">{token}</th>
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
      </div>
      <p class="muted">A row is a token of what was written, a column a unit of what was read before it; colors are relative to the largest score of the table.</p>
    </section>
  );
}
