import { useState } from "preact/hooks";
import { labelOf, number } from "../format";
import type { Board } from "../types";

/** The words that push most toward each class over all texts. */
export function Words({ board }: { board: Board }) {
  const names = Object.keys(board.words).filter((name) => Object.values(board.words[name] ?? {}).some((some) => some.length));
  const [chosen, setChosen] = useState(names[0] ?? "");
  const classes = Object.entries(board.words[chosen] ?? {}).filter(([, words]) => words.length > 0);
  if (classes.length === 0) return null;
  const largest = Math.max(1e-9, ...classes.flatMap(([, words]) => words.map((word) => word.score)));
  return (
    <>
      <label>
        According to{" "}
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          {names.map((name) => <option key={name}>{name}</option>)}
        </select>
      </label>
      <div class="columns">
        {classes.map(([target, words]) => (
          <div class="wide" key={target} tabIndex={0} role="region" aria-label={`Words toward ${labelOf(board.labels, Number(target))}`}><table class="words">
            <caption>toward {labelOf(board.labels, Number(target))}</caption>
            <tbody>
              {words.map((word) => (
                <tr key={word.word}>
                  <th scope="row">{word.word}</th>
                  <td class="plot"><span class="bar" style={{ width: `${(100 * Math.max(0, word.score)) / largest}%` }} /></td>
                  <td>{number(word.score, 2)}</td>
                  <td class="muted">{word.examples} texts</td>
                </tr>
              ))}
            </tbody>
          </table></div>
        ))}
      </div>
      <p class="muted">Scores are relative to the largest in their text (1), averaged over the texts a word is in and one
        more without it, so that a rare word does not win by luck. Words in one text only are left out.</p>
    </>
  );
}
