import type { Work } from "../work";

/** The button that sends a form, how far the work is, and what went wrong. */
export function Actions({ send, example, disabled, work }: { send: string; example: () => void; disabled: boolean; work: Work }) {
  return (
    <>
      <div class="actions">
        <button class="primary" type="submit" disabled={disabled}>{send}</button>
        <button class="quiet" type="button" onClick={example}>Fill in an example</button>
        {work.status && <button class="quiet" type="button" onClick={work.cancel}>Cancel</button>}
        <span role="status" class="muted">{work.status || "Ctrl + Enter sends the form."}</span>
      </div>
      {work.fault && <p role="alert" class="warning">{work.fault}</p>}
    </>
  );
}

/** Sends the form that a field is in. */
export function onKeys(event: KeyboardEvent): void {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) (event.currentTarget as HTMLTextAreaElement).form?.requestSubmit();
}
