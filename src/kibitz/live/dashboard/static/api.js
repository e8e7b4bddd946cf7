// Requests to the server, and streams of server-sent events.

const FIRST_RETRY_MS = 400;
const MAX_RETRY_MS = 4000;
const SILENCE_MS = 25000; // a connection without data for this long counts as lost

class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Return the RequestError that a failed response describes. */
async function readError(response) {
  let message = `The server responded with status ${response.status}.`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch {
    // The body is not an error of kibitz (a proxy may have sent it), so show the status.
  }
  return new RequestError(response.status, message);
}

/** Send a request; return the decoded response or throw a RequestError. */
async function request(method, address, body) {
  let response;
  try {
    response = await fetch(address, {
      method,
      cache: "no-store",
      credentials: "same-origin",
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new RequestError(0, "The server does not respond.");
  }
  if (!response.ok) throw await readError(response);
  return response.status === 204 ? null : response.json();
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Pass each event of a stream to `onEvent(kind, data)` until the stream ends or stays silent. */
async function readEvents(body, onEvent, controller) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let timer;
    const silence = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("silence")), SILENCE_MS); });
    try {
      const { done, value } = await Promise.race([reader.read(), silence]);
      if (done) return;
      rest += value;
    } catch (error) {
      controller.abort();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line.startsWith("data:"));
      const kind = block.split("\n").find((line) => line.startsWith("event:"))?.slice(6).trim();
      if (lines.length) onEvent(kind, JSON.parse(lines.map((line) => line.slice(5)).join("\n")));
    }
  }
}

/**
 * Follow a stream while the tab is visible, and reconnect when the connection is lost.
 * `handlers` has onOpen(), onEvent(kind, data), onLost() and onError(error). Return a function that stops.
 */
function subscribe(address, handlers) {
  let isStopped = false;
  let current = null;

  async function run() {
    let wait = FIRST_RETRY_MS;
    const mine = new AbortController();
    current = mine;
    while (!isStopped && current === mine) {
      const attempt = new AbortController();
      mine.signal.addEventListener("abort", () => attempt.abort(), { once: true });
      try {
        const response = await fetch(address, { cache: "no-store", credentials: "same-origin", signal: attempt.signal });
        if ([401, 403, 404].includes(response.status)) {
          isStopped = true;
          handlers.onError(await readError(response));
          return;
        }
        if (response.ok) {
          wait = FIRST_RETRY_MS;
          handlers.onOpen();
          await readEvents(response.body, handlers.onEvent, attempt);
        }
      } catch {
        // Either the connection was lost or the stream was aborted; the next line distinguishes them.
      }
      if (isStopped || mine.signal.aborted) return;
      handlers.onLost();
      await sleep(wait * (0.75 + Math.random() / 2));
      wait = Math.min(2 * wait, MAX_RETRY_MS);
    }
  }

  function checkVisibility() {
    if (document.visibilityState === "hidden") {
      current?.abort();
      current = null;
    } else if (!isStopped && current === null) run();
  }

  document.addEventListener("visibilitychange", checkVisibility);
  checkVisibility();
  return () => {
    isStopped = true;
    current?.abort();
    document.removeEventListener("visibilitychange", checkVisibility);
  };
}
