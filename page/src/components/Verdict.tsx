const SHORT = 60; // letters of a headline

/** The answer in words: the first sentence as a headline, what it rests on below. */
export function Verdict({ lines }: { lines: string[] }) {
  const [first = "", ...rest] = lines;
  const cut = first.search(/: | \(/);
  const split = cut > 0 && cut <= SHORT;
  const why = split ? first.slice(cut).replace(/^:/, "").trim() : "";
  return (
    <>
      <p class={split ? "headline" : "headline long"}>{split ? first.slice(0, cut) : first}</p>
      {why && <p class="why">{why.charAt(0).toUpperCase() + why.slice(1)}</p>}
      {rest.length > 0 && <ul>{rest.map((line) => <li key={line} class={line.startsWith("Warning") ? "warning" : ""}>{line}</li>)}</ul>}
    </>
  );
}
