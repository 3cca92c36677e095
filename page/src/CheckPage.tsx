import { axis, percentTick } from "./components/Chart";
import { DotRows } from "./components/DotRows";
import { Lines } from "./components/Lines";
import { Verdict } from "./components/Verdict";
import { number } from "./format";
import type { Check } from "./types";

/** One check: what it says in words, its numbers drawn; the table comes after it. */
export function CheckPage({ check }: { check: Check }) {
  const lines = check.lines.map((line) => ({ ...line, shown: line.name }));
  return (
    <section class="answer">
      <p class="kicker">{check.title}</p>
      <Verdict lines={check.answer} />
      {lines.length > 0 && (
        <figure>
          <Lines x={axis(0, 1, "share of units erased", percentTick)} y={axis(0, 1, "p-value")} lines={lines} label={check.title}
            value={(value) => number(value)} level={{ at: check.level, text: `out of distribution below ${check.level}` }} />
          <figcaption>{check.caption}</figcaption>
        </figure>
      )}
      {check.dots.length > 0 && <DotRows rows={check.dots} caption={check.caption} reference={0} digits={2} />}
      {check.notes.map((note) => <p class="muted" key={note}>{note}</p>)}
    </section>
  );
}
