import { useMemo } from "preact/hooks";
import type { Cited } from "../api";
import { Saving } from "./Saving";

/** The answer beside its passages: the view of the page that can be saved, which Python has escaped. */
export function CitedView({ cited }: { cited: Cited }) {
  const view = useMemo(() => new DOMParser().parseFromString(cited.page, "text/html").querySelector(".cited")!.parentElement!.innerHTML, [cited]);
  return (
    <section class="model-answer" aria-label="Passages behind the answer">
      <div dangerouslySetInnerHTML={{ __html: view }} />
      <Saving name="troth-passages" result={cited} />
    </section>
  );
}
