// What is said and shown while an answer takes longer than a moment.

import { compiling, pause } from "./api.js";

const MOMENT = 250; // milliseconds in which most answers come: until then nothing need blink
const LOOK = 500; // milliseconds between looks at what the server does

/** Notices when an answer takes longer than a moment: `late` is true then, and `changed` is called. */
export class Patience {
  #timer = 0;

  constructor(changed) {
    this.changed = changed;
    this.late = false;
  }

  /** An answer is awaited from now on, or has been for a while. */
  begin() {
    if (this.late) return;
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      this.late = true;
      this.changed();
    }, MOMENT);
  }

  /** Nothing is awaited any more. */
  end() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.late = false;
  }
}

/** Wraps `say(text)` into a function that says what the server does for as long as `late()` is true. */
export function reporter(late, say) {
  let running = false;
  return async () => {
    if (running) return;
    running = true;
    while (late()) {
      const busy = await compiling();
      if (late()) {
        say(busy ? "Compiling for a new size." : "Waiting for the server.");
        await pause(LOOK);
      }
    }
    running = false;
  };
}
