// The dashboard: the session, the current view, and the state of the connection.

const POLL_MS = 2000; // time between two requests for the list of agents
const RECONNECTED_MS = 12000; // how long the dashboard says that it has reconnected
const AGENT_TIPS = {
  Arms: "Number of arms of the agent, including paused and retired arms.",
  Asks: "Number of times the agent was asked which arm to pull.",
  Looks: "Number of reported looks: observations that cost no pull.",
  Pending: "Number of pulls and looks whose reward has not been reported yet.",
  "Last event": "Time of the agent's last event, in the time zone of this browser.",
};

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const logout = document.getElementById("logout");
let session = { tokens: false, role: null, agent: null };
let view = null;
let state = "";
let timer = 0;

const dashboard = {
  usesTokens: () => session.tokens,
  mayChange: (name) => session.role === "admin" && (session.agent === null || session.agent === name),
  showLogin: () => show(createLoginView()),
  showEmpty(title, sentence) {
    dashboard.showConnection("");
    const back = html("p", { class: "title" }, html("a", { class: "back", href: "#/" }, "‹ All agents"));
    show({ node: html("div", {}, back, createEmptyCard(title, sentence)), stop() {}, title });
  },

  /** Show the state of the connection: "live", "lost", "trouble" with a message, or "" for none. */
  showConnection(now, message = "") {
    clearTimeout(timer);
    const isBack = now === "live" && ["lost", "trouble", "reconnected"].includes(state);
    const wasBack = state === "reconnected";
    state = isBack ? "reconnected" : now;
    connection.hidden = !now;
    connection.className = `connection ${now === "live" ? "live" : now ? "lost" : ""}`;
    if (isBack) {
      if (!wasBack) setText(connection, `Reconnected at ${CLOCK.format(new Date())}`);
      timer = setTimeout(() => { state = "live"; setText(connection, "Live"); }, RECONNECTED_MS);
    } else if (now === "live") setText(connection, "Live");
    else if (now === "lost") setText(connection, "The server does not respond; retrying");
    else setText(connection, message);
  },
};

function createEmptyCard(title, sentence, code) {
  return html("section", { class: "card empty" }, html("h2", {}, title), html("p", {}, sentence),
    ...(code ? [html("code", {}, code)] : []));
}

function show(next) {
  view?.stop();
  view = next;
  document.title = next.title ? `${next.title} · kibitz` : "kibitz";
  logout.hidden = !(session.tokens && session.role);
  main.replaceChildren(next.node);
}

function createLoginView() {
  session.role = null;
  dashboard.showConnection("");
  const token = html("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const message = html("p", { class: "message bad", role: "alert", hidden: true });
  const user = html("input", { type: "text", autocomplete: "username", value: "kibitz", hidden: true }); // for password managers
  const form = html("form", { class: "card login", submit: async (event) => {
    event.preventDefault();
    message.hidden = true;
    try {
      session = await request("POST", "/login", { token: token.value.trim() });
      route();
    } catch (error) {
      setText(message, error.status === 401 || error.status === 422 ? "This token is invalid or was revoked." : error.message);
      message.hidden = false;
      token.select();
    }
  } }, html("h1", {}, "Log in"),
  html("p", { class: "soft" }, "This service requires a token. Create one with ", html("code", {}, "kibitz token create"), "."),
  user, html("label", { for: "token" }, "Token"), token, html("button", { class: "main" }, "Log in"), message);
  setTimeout(() => token.focus());
  return { node: form, stop() {}, title: "Log in" };
}

function createListView() {
  const body = html("tbody", { role: "rowgroup" });
  const createHead = (label, css = "") => createHeader(label, AGENT_TIPS[label], css, { role: "columnheader" });
  const table = html("table", { class: "agents", role: "table", "aria-label": "Agents" },
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, createHead("Agent"), createHead("Policy"),
      ...Object.keys(AGENT_TIPS).map((label) => createHead(label, "number")))), body);
  const card = html("section", { class: "card", hidden: true }, table);
  const empty = createEmptyCard("No agents yet", "This store has no agents. To create one:",
    "kibitz agent create --store shop.db checkout --arms blue,green --rewards bernoulli");
  empty.hidden = true;
  const node = html("div", {}, html("div", { class: "title" }, html("h1", {}, "Agents")), card, empty);
  const rows = new Map();
  let isStopped = false;

  function createRow(name) {
    const cells = [html("td", { class: "policy", role: "cell" }), ...Object.entries(AGENT_TIPS).map(([label, tip]) =>
      html("td", { class: "number", role: "cell", "data-label": label.toLowerCase(), "data-tip": tip }))];
    const link = html("a", { href: `#/${encodeURIComponent(name)}`, class: "name" }, name);
    return { node: html("tr", { role: "row" }, html("th", { scope: "row", role: "rowheader" }, link), ...cells), cells };
  }

  function draw(agents) {
    card.hidden = agents.length === 0;
    empty.hidden = agents.length > 0;
    setChildren(body, agents.map((agent) => {
      if (!rows.has(agent.agent)) rows.set(agent.agent, createRow(agent.agent));
      const row = rows.get(agent.agent);
      const counts = [agent.n_arms, agent.n_asks, agent.n_looks, agent.n_pending].map(formatCount);
      [agent.policy, ...counts, formatTime(agent.latest)].forEach((text, k) => setText(row.cells[k], text));
      return row.node;
    }));
  }

  async function run() {
    while (!isStopped) {
      if (document.visibilityState === "visible") {
        try {
          const { agents } = await request("GET", "/v1/watch");
          if (isStopped) return;
          draw(agents);
          dashboard.showConnection("live");
        } catch (error) {
          if (isStopped) return;
          if (error.status === 401) return dashboard.showLogin();
          dashboard.showConnection(error.status ? "trouble" : "lost", error.message);
        }
      }
      await sleep(POLL_MS);
    }
  }
  run();
  return { node, stop() { isStopped = true; }, title: "" };
}

function route() {
  if (session.tokens && !session.role) return dashboard.showLogin();
  let name = "";
  try {
    name = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  } catch {
    // The address is truncated, so show the list of agents.
  }
  state = "";
  show(name ? createAgentView(name, dashboard) : createListView());
}

async function start() {
  for (;;) {
    try {
      session = await request("GET", "/session");
      return route();
    } catch (error) {
      dashboard.showConnection(error.status ? "trouble" : "lost", error.message);
      await sleep(POLL_MS);
    }
  }
}

document.getElementById("skip").addEventListener("click", () => main.focus());
logout.addEventListener("click", async () => {
  try {
    await request("POST", "/logout", {});
    dashboard.showLogin();
  } catch (error) {
    dashboard.showConnection("trouble", error.message);
  }
});
window.addEventListener("hashchange", () => {
  route();
  main.focus();
  scrollTo(0, 0);
});
installTips();
start();
