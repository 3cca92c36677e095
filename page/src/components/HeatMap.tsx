import { number } from "../format";
import type { Matrix } from "../types";
import { Captioned } from "./Captioned";
import { Name } from "./Name";

/** A square of correlations: blue agrees, orange contradicts, and every number is written. */
export function HeatMap({ matrix, caption }: { matrix: Matrix; caption: string }) {
  return (
    <Captioned caption={caption}>
      <table class="heat">
        <thead>
          <tr><td />{matrix.names.map((name, place) => <th key={name} scope="col" title={name}>{place + 1}</th>)}</tr>
        </thead>
        <tbody>
          {matrix.names.map((name, row) => (
            <tr key={name}>
              <th scope="row">{row + 1}. <Name of={name} /></th>
              {matrix.values[row]?.map((value, column) => (
                <td key={column} class={value !== null && value < 0 ? "against" : "for"}
                  style={{ "--strength": String(Math.abs(value ?? 0)) }}
                  title={`${name} and ${matrix.names[column]}`}>
                  {number(value, 2)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Captioned>
  );
}
