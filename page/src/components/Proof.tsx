import type { Attribution } from "../api";
import { percent } from "../format";

type Facts = NonNullable<Attribution["proof"]>;

/** What the model says without the top units, next to what it says without random ones. */
export function Proof({ proof, shown }: { proof: Facts; shown: (value: number) => string }) {
  const values = [proof.probability, proof.without_top, proof.without_random, proof.random_low, proof.random_high];
  const [low, high] = [Math.min(0, ...values), Math.max(values.every((value) => value <= 1 && value >= 0) ? 1 : -1e9, ...values)];
  const at = (value: number) => `${(100 * (value - low)) / (high - low || 1)}%`;
  const row = (name: string, value: number, band?: [number, number]) => (
    <tr>
      <th scope="row">{name}</th>
      <td class="plot"><span class="rail" aria-hidden="true">
        {band && <s style={{ left: at(band[0]), right: `calc(100% - ${at(band[1])})` }} />}
        <i style={{ left: at(value) }} />
      </span></td>
      <td>{shown(value)}</td>
    </tr>
  );
  const share = percent(proof.ratio);
  return (
    <table class="proof">
      <caption>Proof, erased by {proof.masking}</caption>
      <tbody>
        {row("whole text", proof.probability)}
        {row(`without its top ${share}`, proof.without_top)}
        {row(`without random ${share}`, proof.without_random, [proof.random_low, proof.random_high])}
      </tbody>
    </table>
  );
}
