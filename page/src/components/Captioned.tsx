import type { ComponentChildren } from "preact";
import { Wide } from "./Wide";

/** A table that scrolls sideways by itself, below a caption that does not. */
export function Captioned({ caption, children }: { caption: string; children: ComponentChildren }) {
  return (
    <div>
      <p class="caption">{caption}</p>
      <Wide label={caption}>{children}</Wide>
    </div>
  );
}
