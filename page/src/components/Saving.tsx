import { save } from "../save";

/** Saves a result as a page and as JSON. */
export function Saving({ name, result }: { name: string; result: { page: string } }) {
  const { page, ...facts } = result;
  return (
    <p class="actions">
      <button class="quiet" type="button" onClick={() => save(`${name}.html`, "text/html", page)}>Save as HTML</button>
      <button class="quiet" type="button" onClick={() => save(`${name}.json`, "application/json", JSON.stringify(facts, null, 2))}>
        Save as JSON</button>
    </p>
  );
}
