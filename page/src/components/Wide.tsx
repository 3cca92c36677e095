import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const NEAR = 8; // pixels that are not worth a hint

/** A table that scrolls sideways by itself; where more of it lies to the right, its edge fades and a line says so. */
export function Wide({ label, children }: { label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [more, setMore] = useState({ scrolls: false, right: false });
  useEffect(() => {
    const look = () => {
      if (!box.current) return;
      const { scrollWidth, clientWidth, scrollLeft } = box.current;
      setMore({ scrolls: scrollWidth > clientWidth + NEAR, right: scrollWidth > clientWidth + scrollLeft + NEAR });
    };
    // The hint moves what is below it, which must not happen while sizes are being reported.
    const watch = new ResizeObserver(() => requestAnimationFrame(look));
    watch.observe(box.current!);
    if (box.current!.firstElementChild) watch.observe(box.current!.firstElementChild);
    box.current!.addEventListener("scroll", look, { passive: true });
    return () => watch.disconnect();
  }, []);
  return (
    <>
      {more.scrolls && <p class="scrolls" aria-hidden="true">Scroll sideways for all columns →</p>}
      <div class={`faded ${more.right ? "more" : ""}`}>
        <div class="wide" ref={box} tabIndex={0} role="region" aria-label={label}>{children}</div>
      </div>
    </>
  );
}
