import { signed } from "../format";
import type { Unit } from "../read";

export const UNSIGNED = "how much, not which way";

const FAINT = 0.2; // of the largest score: below it a unit gets no line

interface Props {
  strengths: number[];
  largest: number; // what a strength of 1 stands for
  erased?: Set<number>;
  exact?: boolean; // scores are not rounded
  numbered?: boolean; // passages, which have numbers
  onUnit?: (unit: number) => void; // makes every unit a button that erases it or brings it back
}

/** A text and its pair. */
export function ColoredText({ segments, ...rest }: Props & { segments: Unit[][] }) {
  return (
    <p class="colored" dir="auto">
      {segments.map((units, segment) => (
        <span key={segment}>
          {segment > 0 && <b class="bar-between"> | </b>}
          <Units units={units} {...rest} />
        </span>
      ))}
    </p>
  );
}

/** Units on colored ground: blue and a solid line push toward the class, orange and a dotted one away from it. */
export function Units({ units, strengths, largest, erased, exact, numbered, onUnit }: Props & { units: Unit[] }) {
  return (
    <>
      {units.map((unit, place) => {
        if (unit.number === null) return <span key={place} class="between">{unit.text}</span>;
        const number = unit.number;
        const strength = strengths[number] ?? 0;
        const gone = erased?.has(number) ?? false;
        const line = Math.abs(strength) < FAINT ? "" : strength > 0 ? "toward" : "away";
        const props = {
          class: `unit ${strength < 0 ? "against" : "for"} ${line} ${gone ? "gone" : ""}`,
          style: { "--strength": Math.abs(strength).toFixed(2) },
          title: `${exact ? "" : "≈ "}${signed(strength * largest)}${gone ? ", erased" : ""}`,
        };
        const shown = onUnit
          ? <button type="button" key={place} {...props} aria-pressed={gone} onClick={() => onUnit(number)}>{unit.text}</button>
          : <span key={place} {...props}>{unit.text}</span>;
        return numbered ? <span key={place} class="passage"><b>[{number + 1}]</b>{shown}</span> : shown;
      })}
    </>
  );
}

/** What the colors mean. */
export function ColorLegend({ signedToo, exact }: { signedToo: boolean; exact?: boolean }) {
  return (
    <p class="muted legend-text">
      <span class="unit for toward" style={{ "--strength": "0.8" }}>blue, solid line</span> pushes toward the class
      {signedToo && <>, <span class="unit against away" style={{ "--strength": "0.8" }}>orange, dotted line</span> away from it</>}.
      Of a method that says {UNSIGNED}, blue only means that it matters.
      Colors are relative to the largest score in the text{exact ? "" : "; a score on hover is rounded to 1/45 of it"}.
    </p>
  );
}
