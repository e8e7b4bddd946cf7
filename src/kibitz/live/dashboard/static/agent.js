// One agent: at a glance, its arms, where pulls and looks go, warnings, and what has just happened.

const KINDS = {
  pull: "asked", look: "look", observe: "observed", told: "told", corrected: "corrected", forgotten: "forgotten",
  silent: "silent", added: "added", paused: "paused", resumed: "resumed", retired: "retired",
};
const LOOKS = 8; // arms whose looks are shown apart

function tile(label) {
  const value = html("div", { class: "value" });
  const note = html("div", { class: "note" });
  return { node: html("div", { class: "tile" }, html("dt", {}, label), html("dd", {}, value, note)), value, note };
}

/** Numbers of a report that JSON cannot write are strings there: no bound is known. */
function numbers(report) {
  const number = (value) => (typeof value === "number" ? value : null);
  const arms = report.arms.map((arm) => ({ ...arm, mean: number(arm.mean), low: number(arm.low), high: number(arm.high) }));
  return { ...report, arms, regret_high: number(report.regret_high), looks_saved: number(report.looks_saved) };
}

const savedWords = (amount) => (amount < 5e-4 ? "saved nothing" : `saved about ${some(amount)}`);

function glance() {
  const [asks, regret, looks, waiting] = ["Asks", "Regret so far", "Looks", "Pending"].map(tile);
  const sum = (arms, key) => arms.reduce((total, arm) => total + arm[key], 0);

  function show(report) {
    const { arms, n_asks, regret_low, regret_high } = report;
    say(asks.value, whole(n_asks));
    say(asks.note, `${whole(sum(arms, "n_pulls"))} told`);
    const known = regret_high !== null && n_asks > 0;
    regret.value.replaceChildren(...(known
      ? [some(regret_low), html("span", { class: "to" }, "to"), some(regret_high)] : ["–"]));
    const sure = `with probability ${some(100 * (1 - report.delta), 2)} %, at all times`;
    say(regret.note, known ? sure : n_asks ? "no bound yet: an arm was never told of" : "nothing pulled yet");
    const n_looks = sum(arms, "n_looks");
    say(looks.value, whole(n_looks));
    say(looks.note, report.looks_saved === null
      ? (n_looks ? "what they saved cannot be said yet" : "none yet")
      : `${savedWords(report.looks_saved)} of regret, by the planner`);
    const pending = sum(arms, "n_pending");
    const oldest = Math.max(...arms.map((arm) => arm.oldest ?? 0));
    const lost = sum(arms, "n_forgotten");
    say(waiting.value, whole(pending));
    say(waiting.note, (pending ? `the oldest for ${duration(oldest)}` : "nothing is waited for") +
      (lost ? `; ${whole(lost)} lost` : ""));
  }
  return { node: html("dl", { class: "tiles" }, asks.node, regret.node, looks.node, waiting.node), show };
}

function warningsBox() {
  const list = html("ul");
  const node = html("section", { class: "warnings", "aria-live": "polite", hidden: true }, html("h2", {}, "Warnings"), list);
  let shown = "";
  return {
    node,
    show(warnings) {
      node.hidden = warnings.length === 0;
      if (shown === warnings.join("\n")) return;
      shown = warnings.join("\n");
      list.replaceChildren(...warnings.map((sentence) => html("li", {}, `${sentence[0].toUpperCase()}${sentence.slice(1)}.`)));
    },
  };
}

function looksCard(colours) {
  const words = html("p", { class: "small soft" });
  const list = html("ul", { class: "looks" });
  const rows = [];

  function row(k) {
    const name = html("span", { class: "name" });
    const drawn = bar(12);
    const text = html("span", { class: "number" });
    return (rows[k] ??= { node: html("li", {}, name, drawn.node, text), name, drawn, text });
  }

  function show(report) {
    const looked = report.arms.filter((arm) => arm.n_looks).sort((a, b) => b.n_looks - a.n_looks);
    const total = looked.reduce((sum, arm) => sum + arm.n_looks, 0);
    const apart = looked.length > LOOKS ? looked.slice(0, LOOKS - 1) : looked;
    const shown = apart.map((arm) => ({ name: arm.arm, count: arm.n_looks, css: colours.of(arm.arm) }));
    if (apart.length < looked.length) {
      const count = total - shown.reduce((sum, one) => sum + one.count, 0);
      shown.push({ name: `${looked.length - apart.length} others`, count, css: "others" });
    }
    const most = Math.max(1, ...shown.map((one) => one.count));
    const saved = report.looks_saved === null ? "" : ` They ${savedWords(report.looks_saved)} of regret, by the planner.`;
    say(words, total
      ? `${plural(total, "look")}, ${some((100 * total) / Math.max(1, report.n_asks), 2)} for every 100 asks.${saved}`
      : "No look has been told of yet. A look is an observation that costs no pull.");
    arrange(list, shown.map((one, k) => {
      const drawn = row(k);
      say(drawn.name, one.name);
      set(drawn.name, "title", one.name);
      set(drawn.drawn.full, "class", `bar ${one.css}`);
      drawn.drawn.show(one.count / most);
      say(drawn.text, `${whole(one.count)} · ${percent(one.count, total)}`);
      return drawn.node;
    }));
  }
  return { node: html("section", { class: "card" }, html("h2", {}, "Where the looks go"), words, list), show };
}

function eventsCard() {
  const body = html("tbody");
  const none = html("p", { class: "small soft" }, "Nothing has happened yet.");
  const head = (text, css = "") => html("th", { scope: "col", class: css }, text);
  const table = html("table", { class: "events", "aria-label": "Recent events" },
    html("thead", {}, html("tr", {}, head("Time"), head("What"), head("Arm", "arm"), head("Reward", "number"),
      head("Decision", "number id"), head("Key", "key"))), body);
  let newest = 0;
  return {
    node: html("section", { class: "card" }, html("h2", {}, "What has just happened"), none, table),
    show(events) {
      none.hidden = events.length > 0;
      table.hidden = events.length === 0;
      if (events.length && events[0].seq === newest) return;
      newest = events[0]?.seq ?? 0;
      body.replaceChildren(...events.map((event) => html("tr", {},
        html("td", { class: "soft" }, moment(event.at)),
        html("td", {}, KINDS[event.kind] ?? event.kind),
        html("td", { class: "arm name", title: event.arm }, event.arm),
        html("td", { class: "number" }, event.reward === null ? "" : short(event.reward)),
        html("td", { class: "number id soft" }, event.id === null ? "" : `#${event.id}`),
        html("td", { class: "key soft name" }, event.key ?? ""))));
    },
  };
}

/** The view of an agent; `page` has the session, and says how the connection is. */
function agentView(name, page) {
  const address = `/v1/agents/${encodeURIComponent(name)}`;
  const colours = palette();
  const about = html("p");
  const said = html("p", { class: "said", hidden: true });
  const first = html("section", { class: "card empty", hidden: true }, html("h2", {}, "Nobody has asked yet"),
    html("p", {}, "The first decision shows up here by itself. To ask for one:"),
    html("code", {}, `curl -X POST ${page.tokens() ? "-H 'Authorization: Bearer <token>' " : ""}${location.origin}${address}/ask`));
  const overview = glance();
  const warnings = warningsBox();
  const table = armsTable(colours, change, (arm) => send("POST", `${address}/arms`, { arm }, `${arm} was added.`));
  const chart = sharesChart(colours);
  const looks = looksCard(colours);
  const events = eventsCard();
  const drawn = html("div", { class: "two" },
    html("section", { class: "card" }, html("h2", {}, "Shares of pulls over time"), chart.node), looks.node);
  const content = html("div", { hidden: true }, overview.node, warnings.node,
    html("div", { class: "cards" }, first, table.node, drawn, events.node));
  table.node.append(html("div", { "aria-live": "assertive" }, said));
  const waiting = html("p", { class: "soft" }, "Reading the log …");
  const node = html("div", {}, html("div", { class: "title" }, html("a", { class: "back", href: "#/" }, "‹ All agents"), html("h1", { class: "name" }, name), about), waiting, content);

  async function send(method, where, body, done) {
    said.hidden = true;
    try {
      await call(method, where, body);
      said.className = "said";
      say(said, done);
    } catch (error) {
      said.className = "said bad";
      say(said, `Not done: ${error.message}`);
      if (error.status === 401) page.login();
    }
    said.hidden = false;
    return !said.classList.contains("bad");
  }

  function change(arm, state) {
    const words = state === "paused" ? "is paused: it is pulled no more" : "is pulled again";
    return send("PATCH", `${address}/arms/${encodeURIComponent(arm)}`, { state }, `${arm} ${words}.`);
  }

  function show(frame) {
    const report = numbers(frame.report);
    colours.keep(frame.shares.arms);
    say(about, `${report.policy} · rewards of scale ${short(report.scale)} · ${plural(report.arms.length, "arm")}`);
    first.hidden = report.n_asks > 0;
    drawn.hidden = report.n_asks === 0 && report.arms.every((arm) => !arm.n_looks);
    content.hidden = false;
    waiting.hidden = true;
    overview.show(report);
    warnings.show(report.warnings);
    table.show(report, page.mayChange(name));
    chart.show(frame.shares);
    looks.show(report);
    events.show(frame.events);
  }

  const stop = follow(`${address}/watch`, {
    opened: () => page.line("live"),
    lost: () => page.line("lost"),
    heard: (kind, data) => (kind === "report" ? (page.line("live"), show(data)) : page.line("trouble", data.message)),
    refused: (error) => {
      if (error.status === 401) page.login();
      else page.empty(error.status === 404 ? "There is no such agent" : "Not allowed", error.message);
    },
  });
  return { node, stop, title: name };
}
