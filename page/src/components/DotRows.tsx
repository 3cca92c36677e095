import { number } from "../format";
import { Captioned } from "./Captioned";
import { Name } from "./Name";
import { scaleOf, Whisker } from "./Whisker";

export interface DotRow {
  name: string;
  value: number | null;
  low: number | null;
  high: number | null;
  note?: string;
}

/** Numbers with intervals below each other, on one scale. */
export function DotRows({ rows, caption, reference, digits = 3 }: {
  rows: DotRow[]; caption: string; reference?: number; digits?: number;
}) {
  const scale = scaleOf([...rows.flatMap((row) => [row.value, row.low, row.high]), reference]);
  return (
    <Captioned caption={caption}>
      <table class="dots">
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row"><Name of={row.name} /></th>
              <td>{number(row.value, digits)}</td>
              <td class="plot"><Whisker {...row} scale={scale} reference={reference} /></td>
              <td class="muted">[{number(row.low, digits)}, {number(row.high, digits)}]{row.note && ` ${row.note}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Captioned>
  );
}
