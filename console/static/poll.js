// Repeats a request while its view is shown and the page is visible.

import { complain } from "./dom.js";

const INTERVAL = 2000;

export function poll(action, interval = INTERVAL) {
  let timer = 0;
  let stopped = false;
  const step = async () => {
    if (stopped) return;
    if (!document.hidden) {
      try {
        await action();
        if (!stopped) complain(null);
      } catch (error) {
        if (!stopped) complain(error);
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
