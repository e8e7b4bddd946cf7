// What goes over the wire: questions, changes, and the stream that a server sends.

const FIRST_WAIT = 400; // ms, before a lost connection is tried again
const LONGEST_WAIT = 4000;
const SILENCE = 25000; // ms without a sign of life, after which a connection counts as lost

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Say in words why an answer is none. */
async function refusal(answer) {
  let message = `The server answered ${answer.status}.`;
  try {
    message = (await answer.json()).error.message ?? message;
  } catch {
    // not of the usual shape: the number has to do
  }
  return new Refused(answer.status, message);
}

/** Ask the server; return what it answers, or throw what it says. */
async function call(method, address, body) {
  let answer;
  try {
    answer = await fetch(address, {
      method,
      cache: "no-store",
      credentials: "same-origin",
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer.status === 204 ? null : answer.json();
}

const pause = (time) => new Promise((go) => setTimeout(go, time));

/** Hand over what a stream of server-sent events brings, until it ends or stays silent. */
async function listen(body, heard, stop) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let alarm;
    const silent = new Promise((_, fail) => { alarm = setTimeout(() => fail(new Error("silence")), SILENCE); });
    try {
      const { done, value } = await Promise.race([reader.read(), silent]);
      if (done) return;
      rest += value;
    } catch (error) {
      stop.abort();
      throw error;
    } finally {
      clearTimeout(alarm);
    }
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line.startsWith("data:"));
      const kind = block.split("\n").find((line) => line.startsWith("event:"))?.slice(6).trim();
      if (lines.length) heard(kind, JSON.parse(lines.map((line) => line.slice(5)).join("\n")));
    }
  }
}

/**
 * Follow a stream for as long as the page is seen, and connect again whenever it is lost.
 * `on` has opened(), heard(kind, data), lost() and refused(error). Returns how to stop.
 */
function follow(address, on) {
  let ended = false;
  let current = null;

  async function run() {
    let wait = FIRST_WAIT;
    const mine = new AbortController();
    current = mine;
    while (!ended && current === mine) {
      const stop = new AbortController();
      mine.signal.addEventListener("abort", () => stop.abort(), { once: true });
      try {
        const answer = await fetch(address, { cache: "no-store", credentials: "same-origin", signal: stop.signal });
        if ([401, 403, 404].includes(answer.status)) {
          ended = true;
          on.refused(await refusal(answer));
          return;
        }
        if (answer.ok) {
          wait = FIRST_WAIT;
          on.opened();
          await listen(answer.body, on.heard, stop);
        }
      } catch {
        // lost, or the page was left: the loop knows which
      }
      if (ended || mine.signal.aborted) return;
      on.lost();
      await pause(wait * (0.75 + Math.random() / 2));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  }

  function seen() {
    if (document.visibilityState === "hidden") {
      current?.abort();
      current = null;
    } else if (!ended && current === null) run();
  }

  document.addEventListener("visibilitychange", seen);
  seen();
  return () => {
    ended = true;
    current?.abort();
    document.removeEventListener("visibilitychange", seen);
  };
}
