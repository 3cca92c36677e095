import type { ComponentChildren } from "preact";

/** A table that scrolls sideways by itself, below a caption that does not. */
export function Captioned({ caption, children }: { caption: string; children: ComponentChildren }) {
  return (
    <div>
      <p class="caption">{caption}</p>
      <div class="wide" tabIndex={0} role="region" aria-label={caption}>{children}</div>
    </div>
  );
}
