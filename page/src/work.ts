import { useRef, useState } from "preact/hooks";

type Doing = (signal: AbortSignal, onProgress: (line: string) => void) => Promise<void>;

/** One request at a time: a new one ends the one under way. `status` says how far it is, `fault` what went wrong. */
export function useWork(onFault: () => void) {
  const [status, setStatus] = useState("");
  const [fault, setFault] = useState("");
  const current = useRef<AbortController | null>(null);
  const run = async (doing: Doing) => {
    current.current?.abort();
    const mine = new AbortController();
    current.current = mine;
    setFault("");
    setStatus("Sent");
    try {
      await doing(mine.signal, setStatus);
    } catch (error) {
      if ((error as Error).name !== "AbortError") {
        setFault((error as Error).message);
        onFault();
      }
    } finally {
      if (current.current === mine) {
        current.current = null;
        setStatus("");
      }
    }
  };
  return { status, fault, setFault, run, cancel: () => current.current?.abort() };
}

export type Work = ReturnType<typeof useWork>;
