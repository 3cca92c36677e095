import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";

const WIDE = 340; // pixels that a meaning may take

/** A word whose meaning shows on hover and on focus; Escape hides it. */
export function Term({ meaning, children, holdsButton }: {
  meaning: string | undefined; children: ComponentChildren; holdsButton?: boolean;
}) {
  const id = useId();
  const word = useRef<HTMLSpanElement>(null);
  const [place, setPlace] = useState<Record<string, string> | null>(null);
  if (!meaning) return <>{children}</>;
  // On the window and not in the page: a table that scrolls would cut it off.
  const show = () => {
    const box = word.current!.getBoundingClientRect();
    const left = `${Math.max(8, Math.min(box.left, innerWidth - WIDE - 8))}px`;
    setPlace(box.bottom > innerHeight * 0.65 ? { left, bottom: `${innerHeight - box.top + 4}px` } : { left, top: `${box.bottom + 4}px` });
  };
  const hide = () => setPlace(null);
  return (
    <span class="term" ref={word} tabIndex={holdsButton ? undefined : 0} aria-describedby={id} onMouseEnter={show} onMouseLeave={hide} onFocusCapture={show}
      onBlurCapture={hide} onKeyDown={(event) => { if (event.key === "Escape") hide(); }}>
      {children}
      <span role="tooltip" class="tip" id={id} style={place ?? {}} hidden={place === null}>{meaning}</span>
    </span>
  );
}
