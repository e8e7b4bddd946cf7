// The page: who is there, which view is shown, and how the connection is.

const EVERY = 2000; // ms between two looks at the list of agents
const AGAIN = 12000; // ms for which it says that it is connected again

const main = document.getElementById("main");
const line = document.getElementById("line");
const leave = document.getElementById("leave");
let session = { tokens: false, role: null, agent: null };
let view = null;
let state = "";
let timer = 0;

const page = {
  tokens: () => session.tokens,
  mayChange: (name) => session.role === "admin" && (session.agent === null || session.agent === name),
  login: () => show(loginView()),
  empty(title, sentence) {
    page.line("");
    const back = html("p", { class: "title" }, html("a", { class: "back", href: "#/" }, "‹ All agents"));
    show({ node: html("div", {}, back, emptyCard(title, sentence)), stop() {}, title });
  },

  /** Say how the connection is: live, lost, trouble, or nothing. */
  line(now, message = "") {
    clearTimeout(timer);
    const back = now === "live" && (state === "lost" || state === "trouble" || state === "again");
    state = back ? "again" : now;
    line.hidden = !now;
    line.className = `line ${now === "live" ? "live" : now ? "lost" : ""}`;
    if (back) {
      if (!line.textContent.startsWith("Connected")) say(line, `Connected again at ${CLOCK.format(new Date())}`);
      timer = setTimeout(() => { state = "live"; say(line, "Live"); }, AGAIN);
    } else if (now === "live") say(line, "Live");
    else if (now === "lost") say(line, "The server does not answer; trying again");
    else say(line, message);
  },
};

function emptyCard(title, sentence, code) {
  return html("section", { class: "card empty" }, html("h2", {}, title), html("p", {}, sentence),
    ...(code ? [html("code", {}, code)] : []));
}

function show(next) {
  view?.stop();
  view = next;
  document.title = next.title ? `${next.title} · kibitz` : "kibitz";
  leave.hidden = !(session.tokens && session.role);
  main.replaceChildren(next.node);
}

function loginView() {
  session.role = null;
  page.line("");
  const token = html("input", { id: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const said = html("p", { class: "said bad", role: "alert", hidden: true });
  const user = html("input", { type: "text", autocomplete: "username", value: "kibitz", hidden: true }); // for password managers
  const form = html("form", { class: "card door", submit: async (event) => {
    event.preventDefault();
    said.hidden = true;
    try {
      session = await call("POST", "/login", { token: token.value.trim() });
      route();
    } catch (error) {
      say(said, error.status === 401 || error.status === 422 ? "This token is not valid, or was revoked." : error.message);
      said.hidden = false;
      token.select();
    }
  } }, html("h1", {}, "Log in"),
  html("p", { class: "soft" }, "This service has tokens: ", html("code", {}, "kibitz token create"), " makes one."),
  user, html("label", { for: "token" }, "Token"), token, html("button", { class: "main" }, "Log in"), said);
  setTimeout(() => token.focus());
  return { node: form, stop() {}, title: "Log in" };
}

function listView() {
  const body = html("tbody", { role: "rowgroup" });
  const head = (text, css = "") => html("th", { scope: "col", role: "columnheader", class: css }, text);
  const table = html("table", { class: "agents", role: "table", "aria-label": "Agents" },
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, head("Agent"), head("Policy"), head("Arms", "number"), head("Asks", "number"),
      head("Looks", "number"), head("Pending", "number"), head("Last event", "number"))), body);
  const card = html("section", { class: "card", hidden: true }, table);
  const none = emptyCard("No agents yet", "This store has no agent. To make one:",
    "kibitz agent create --store shop.db checkout --arms blue,green --policy kibitzer --scale 0.5");
  none.hidden = true;
  const node = html("div", {}, html("div", { class: "title" }, html("h1", {}, "Agents")), card, none);
  const rows = new Map();
  let stopped = false;

  function row(name) {
    const cell = (css, label) => html("td", { class: css, role: "cell", "data-label": label });
    const cells = [cell("policy"), ...["arms", "asks", "looks", "pending", "last event"].map((label) => cell("number", label))];
    const link = html("a", { href: `#/${encodeURIComponent(name)}`, class: "name" }, name);
    return { node: html("tr", { role: "row" }, html("th", { scope: "row", role: "rowheader" }, link), ...cells), cells };
  }

  function draw(agents) {
    card.hidden = agents.length === 0;
    none.hidden = agents.length > 0;
    arrange(body, agents.map((agent) => {
      if (!rows.has(agent.agent)) rows.set(agent.agent, row(agent.agent));
      const { node: shown, cells } = rows.get(agent.agent);
      const words = [agent.policy, whole(agent.n_arms), whole(agent.n_asks), whole(agent.n_looks), whole(agent.n_pending), moment(agent.latest)];
      words.forEach((text, k) => say(cells[k], text));
      return shown;
    }));
  }

  async function run() {
    while (!stopped) {
      if (document.visibilityState === "visible") {
        try {
          const { agents } = await call("GET", "/v1/watch");
          if (stopped) return;
          draw(agents);
          page.line("live");
        } catch (error) {
          if (stopped) return;
          if (error.status === 401) return page.login();
          page.line(error.status ? "trouble" : "lost", error.message);
        }
      }
      await pause(EVERY);
    }
  }
  run();
  return { node, stop() { stopped = true; }, title: "" };
}

function route() {
  if (session.tokens && !session.role) return page.login();
  let name = null;
  try {
    name = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  } catch {
    name = ""; // an address that somebody cut
  }
  state = "";
  show(name ? agentView(name, page) : listView());
}

async function start() {
  for (;;) {
    try {
      session = await call("GET", "/session");
      return route();
    } catch (error) {
      page.line(error.status ? "trouble" : "lost", error.message);
      await pause(EVERY);
    }
  }
}

document.getElementById("skip").addEventListener("click", () => main.focus());
leave.addEventListener("click", async () => {
  try {
    await call("POST", "/logout", {});
    page.login();
  } catch (error) {
    page.line("trouble", error.message);
  }
});
window.addEventListener("hashchange", () => {
  route();
  main.focus();
  scrollTo(0, 0);
});
start();
