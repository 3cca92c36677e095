import { percent } from "../format";
import type { Performance } from "../types";
import { axis, Chart, placeX, placeY } from "./Chart";
import { Term } from "./Term";

/** How often the model itself is right, and whether it knows. */
export function Model({ facts, glossary }: { facts: Performance; glossary: Record<string, string> }) {
  const tick = (at: number) => `${Math.round(100 * at)} %`;
  const [x, y] = [axis(0, 1, "how sure the model is", tick), axis(0, 1, "how often it is right", tick)];
  const most = Math.max(...facts.calibration.map((bin) => bin.examples));
  return (
    <>
      <p>
        Right on <b>{percent(facts.accuracy)}</b> of {facts.examples} labeled examples [{percent(facts.low)}, {percent(facts.high)}];{" "}
        <Term meaning={glossary["calibration"]}>calibration error</Term> {percent(facts.calibration_error)}.
      </p>
      <div class="columns">
        <figure>
          <Chart x={x} y={y} label="Calibration of the model">
            <line class="reference" x1={placeX(x, 0)} y1={placeY(y, 0)} x2={placeX(x, 1)} y2={placeY(y, 1)} />
            {facts.calibration.map((bin) => (
              <circle key={bin.sure} class="data" cx={placeX(x, bin.sure)} cy={placeY(y, bin.right)} r={3 + 7 * Math.sqrt(bin.examples / most)}>
                <title>{`${bin.examples} examples: ${percent(bin.sure)} sure, ${percent(bin.right)} right`}</title>
              </circle>
            ))}
          </Chart>
          <figcaption>On the dashed line the model is right as often as it is sure. Larger dots hold more examples.</figcaption>
        </figure>
        {facts.confusion && (
          <div class="wide" tabIndex={0} role="region" aria-label="Confusions">
            <table>
              <caption>Examples by true class (rows) and predicted class (columns)</caption>
              <thead><tr><td />{facts.labels.map((label) => <th scope="col" key={label}>{label}</th>)}</tr></thead>
              <tbody>
                {facts.confusion.map((row, gold) => (
                  <tr key={gold}>
                    <th scope="row">{facts.labels[gold]}</th>
                    {row.map((count, column) => <td key={column}>{gold === column ? <b>{count}</b> : count}</td>)}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
    </>
  );
}
