// Repeats a request while its view is shown and the page is visible. One that hangs is reported, as one that fails.

import { complain } from "./dom.js";

const INTERVAL = 2000;
const LATE = 10000;

export function poll(action, interval = INTERVAL, late = LATE) {
  let timer = 0;
  let stopped = false;
  const step = async () => {
    if (stopped) return;
    if (!document.hidden) {
      const hung = setTimeout(() => {
        if (!stopped) complain("This proxy has not answered for a while. What is shown is older than that.");
      }, late);
      try {
        await action();
        if (!stopped) complain(null);
      } catch (error) {
        if (!stopped) complain(error);
      } finally {
        clearTimeout(hung);
      }
    }
    if (!stopped) timer = setTimeout(step, interval);
  };
  step();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
