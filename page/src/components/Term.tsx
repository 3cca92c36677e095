import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

/** A word whose meaning shows on hover and on focus. */
export function Term({ meaning, children }: { meaning: string | undefined; children: ComponentChildren }) {
  const id = useId();
  if (!meaning) return <>{children}</>;
  return (
    <span class="term" tabIndex={0} aria-describedby={id}>
      {children}
      <span role="tooltip" class="tip" id={id}>{meaning}</span>
    </span>
  );
}
