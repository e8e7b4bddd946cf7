// The view of one agent: verdict, arms, totals, shares of pulls, looks, warnings and the latest events.

const EVENT_KINDS = { // label and explanation
  pull: ["asked", "The agent chose this arm for a pull."],
  look: ["look", "The agent chose this arm for a look."],
  observe: ["observed", "An unsolicited observation of this arm was reported."],
  show: ["shown", "A pull of another arm showed a reward of this arm."],
  told: ["told", "The reward of a decision was reported."],
  corrected: ["corrected", "The reward of a decision was replaced."],
  forgotten: ["forgotten", "The agent stopped waiting for a report: patience ran out, or the decision was forgotten."],
  silent: ["silent", "No report arrived within the agent's patience, so the agent counted the reward configured for silence."],
  added: ["added", "The arm was added."],
  paused: ["paused", "The arm was paused."],
  resumed: ["resumed", "The arm was resumed."],
  retired: ["retired", "The arm was retired."],
  declared_bernoulli: ["declared", "All rewards were declared to be 0 or 1."],
  declared_bounded: ["declared", "All rewards were declared to be in [0, 1]."],
};
const EVENT_TIPS = {
  time: "Time of the event, in the time zone of this browser.",
  event: "Kind of the event.",
  reward: "The reported reward.",
  decision: "Id of the decision that the event belongs to.",
  key: "Idempotency key of the request.",
};
const TILE_TIPS = {
  Asks: "Number of times the agent was asked which arm to pull, and number of rewards reported for these pulls.",
  "Regret so far": "Interval for the regret: the expected reward lost by all pulls so far, compared with always pulling the best arm.",
  Looks: "Number of reported looks (observations that cost no pull), and the planner's estimate of the regret they have saved.",
  Pending: "Number of pulls and looks whose reward has not been reported yet, and how long the oldest has been pending. " +
    "Lost reports are no longer waited for. Late reports arrived after their decision had settled, and do not change the means.",
};
const LOOKS_TIP = "Reported looks at each arm, and their share of all looks.";
const SHARES_TIP = "Share of each arm among the asks, from the first ask (left) to the latest (right).";
const REWARD_TIPS = { // text and explanation
  bernoulli: ["rewards 0 or 1", "Each reward is 0 or 1, such as a view without and a view with a click."],
  bounded: ["rewards from 0 to 1", "Each reward is a number in [0, 1]."],
  gaussian: ["rewards of scale", "Sub-Gaussian scale of the rewards, given when the agent was created. The intervals are proportional to it."],
};
const MAX_LOOK_ROWS = 8;

function createTile(label, tip) {
  const value = html("div", { class: "value" });
  const note = html("div", { class: "note" });
  const node = html("div", { class: "tile" }, html("dt", {}, createTerm(label, tip)),
    html("dd", { "data-tip": tip }, value, note));
  return { node, value, note };
}

/** Return a report with null for each infinite number, which JSON contains as a string. */
function parseReport(report) {
  const parse = (value) => (typeof value === "number" ? value : null);
  const arms = report.arms.map((arm) => ({ ...arm, mean: parse(arm.mean), low: parse(arm.low), high: parse(arm.high) }));
  return { ...report, arms, loss_high: parse(report.loss_high), regret_high: parse(report.regret_high) };
}

const formatSaving = (amount) => (amount < 5e-4 ? "no regret" : `about ${formatNumber(amount)} of regret`);

function createTiles() {
  const [asks, regret, looks, pending] = Object.keys(TILE_TIPS).map((label) => createTile(label, TILE_TIPS[label]));
  const sum = (arms, key) => arms.reduce((total, arm) => total + arm[key], 0);

  function show(report) {
    const { arms, n_asks, regret_low, regret_high } = report;
    setText(asks.value, formatCount(n_asks));
    setText(asks.note, `${formatCount(sum(arms, "n_pulls"))} told`);
    const isKnown = regret_high !== null && n_asks > 0;
    regret.value.replaceChildren(...(isKnown
      ? [formatNumber(regret_low), html("span", { class: "to" }, "to"), formatNumber(regret_high)] : ["–"]));
    const unit = report.rewards === "bernoulli" ? "clicks; " : "";
    const missing = report.alarms.length ? "no bound after a change of a mean" : "no bound yet: an arm has no reported reward";
    const reason = n_asks ? missing : "no pulls yet";
    setText(regret.note, isKnown ? `${unit}at ${formatLevel(report.delta)} confidence, however often you check` : reason);
    const n_looks = sum(arms, "n_looks");
    setText(looks.value, formatCount(n_looks));
    const n_shows = sum(arms, "n_shows");
    setText(looks.note, report.looks_saved === null
      ? (n_shows ? `and ${formatCount(n_shows)} shown by pulls of other arms; no estimate of their effect`
        : n_looks ? "no estimate of their effect yet" : "none yet")
      : `saved ${formatSaving(report.looks_saved)} (estimate)`);
    const n_pending = sum(arms, "n_pending");
    const oldest = Math.max(...arms.map((arm) => arm.oldest ?? 0));
    const [lost, late] = [sum(arms, "n_forgotten"), sum(arms, "n_late")];
    setText(pending.value, formatCount(n_pending));
    setText(pending.note, (n_pending ? `oldest: ${formatDuration(oldest)}` : "no reports outstanding") +
      (lost ? `; ${formatCount(lost)} lost` : "") + (late ? `; ${formatPlural(late, "late report")}` : ""));
  }
  return { node: html("dl", { class: "tiles" }, asks.node, regret.node, looks.node, pending.node), show };
}

function createWarnings() {
  const list = html("ul");
  const node = html("section", { class: "warnings", "aria-live": "polite", hidden: true }, html("h2", {}, "Warnings"), list);
  let current = "";
  return {
    node,
    show(warnings) {
      node.hidden = warnings.length === 0;
      if (current === warnings.join("\n")) return;
      current = warnings.join("\n");
      list.replaceChildren(...warnings.map((sentence) => html("li", {}, `${sentence[0].toUpperCase()}${sentence.slice(1)}.`)));
    },
  };
}

/** Create the card of alarms; it is hidden unless the agent has a monitor. */
function createAlarmsCard(palette) {
  const list = html("ul", { "aria-live": "polite" });
  const promise = html("p", { class: "small soft" });
  const chart = createMeansChart(palette);
  let current = "";
  const node = html("section", { class: "card", hidden: true }, html("h2", {}, "Changes of the means"), list, promise, chart.node);
  return {
    node,
    show(report, shares) {
      const { alarms, promise: text } = report;
      node.hidden = text === "";
      setText(promise, `${alarms.length ? "" : "No change detected. "}${text}.`);
      chart.show(shares, report);
      const last = [...new Map(alarms.map((alarm) => [alarm.arm, alarm])).values()];
      const sentences = last.map((alarm) => `${alarm.sentence}.`);
      const n_earlier = alarms.length - last.length;
      if (n_earlier) sentences.push(`${formatPlural(n_earlier, "earlier change")} ${n_earlier === 1 ? "is" : "are"} not shown.`);
      if (current === sentences.join("\n")) return;
      current = sentences.join("\n");
      list.replaceChildren(...sentences.map((sentence) => html("li", {}, sentence)));
    },
  };
}

function createLooksCard(palette) {
  const summary = html("p", { class: "small soft" });
  const list = html("ul", { class: "looks" });
  const rows = [];

  function getRow(k) {
    const name = html("span", { class: "name" });
    const bar = createBar(12);
    const text = html("span", { class: "number" });
    return (rows[k] ??= { node: html("li", {}, name, bar.node, text), name, bar, text });
  }

  function show(report) {
    const arms = report.arms.filter((arm) => arm.n_looks).sort((a, b) => b.n_looks - a.n_looks);
    const total = arms.reduce((sum, arm) => sum + arm.n_looks, 0);
    const shownArms = arms.length > MAX_LOOK_ROWS ? arms.slice(0, MAX_LOOK_ROWS - 1) : arms;
    const items = shownArms.map((arm) => ({ name: arm.arm, count: arm.n_looks, css: palette.getClass(arm.arm) }));
    if (shownArms.length < arms.length) {
      const count = total - items.reduce((sum, item) => sum + item.count, 0);
      items.push({ name: `${arms.length - shownArms.length} other arms`, count, css: "others" });
    }
    const largestCount = Math.max(1, ...items.map((item) => item.count));
    const saved = report.looks_saved === null ? "" : ` They saved ${formatSaving(report.looks_saved)} (the planner's estimate).`;
    setText(summary, total
      ? `${formatPlural(total, "look")}, ${formatNumber((100 * total) / Math.max(1, report.n_asks), 2)} per 100 asks.${saved}`
      : "No looks yet. A look is an observation that costs no pull.");
    setChildren(list, items.map((item, k) => {
      const row = getRow(k);
      setText(row.name, item.name);
      setAttribute(row.name, "title", item.name);
      setAttribute(row.bar.filled, "class", `bar ${item.css}`);
      row.bar.show(item.count / largestCount);
      setText(row.text, `${formatCount(item.count)} · ${formatShare(item.count, total)}`);
      explain(row.node, `${formatCount(item.count)} of the ${formatPlural(total, "reported look")} were at ${item.name}.`);
      return row.node;
    }));
  }
  return { node: html("section", { class: "card" }, html("h2", {}, createTerm("Looks by arm", LOOKS_TIP)), summary, list), show };
}

function createEventsCard() {
  const body = html("tbody");
  const empty = html("p", { class: "small soft" }, "No events yet.");
  const table = html("table", { class: "events", "aria-label": "Latest events" },
    html("thead", {}, html("tr", {}, createHeader("Time", EVENT_TIPS.time), createHeader("Event", EVENT_TIPS.event),
      createHeader("Arm", "", "arm"), createHeader("Reward", EVENT_TIPS.reward, "number"),
      createHeader("Decision", EVENT_TIPS.decision, "number id"), createHeader("Key", EVENT_TIPS.key, "key"))), body);
  let newest = 0;

  function createRow(event) {
    const [label, tip] = EVENT_KINDS[event.kind] ?? [event.kind, EVENT_TIPS.event];
    return html("tr", {},
      html("td", { class: "soft", "data-tip": EVENT_TIPS.time }, formatTime(event.at)),
      html("td", { "data-tip": tip }, label),
      html("td", { class: "arm name", title: event.arm }, event.arm ?? ""),
      html("td", { class: "number", "data-tip": EVENT_TIPS.reward }, event.reward === null ? "" : formatShort(event.reward)),
      html("td", { class: "number id soft", "data-tip": EVENT_TIPS.decision }, event.id === null ? "" : `#${event.id}`),
      html("td", { class: "key soft name", "data-tip": EVENT_TIPS.key }, event.key ?? ""));
  }

  return {
    node: html("section", { class: "card" }, html("h2", {}, "Latest events"), empty, table),
    show(events) {
      empty.hidden = events.length > 0;
      table.hidden = events.length === 0;
      if (events.length && events[0].seq === newest) return;
      newest = events[0]?.seq ?? 0;
      body.replaceChildren(...events.map(createRow));
    },
  };
}

/** Create the view of an agent; `dashboard` has the session and shows the state of the connection. */
function createAgentView(name, dashboard) {
  const address = `/v1/agents/${encodeURIComponent(name)}`;
  const palette = createPalette();
  const about = html("p");
  const policy = html("span");
  const rewards = createTerm("", "");
  const size = html("span");
  const message = html("p", { class: "message", hidden: true });
  const first = html("section", { class: "card empty", hidden: true }, html("h2", {}, "No decisions yet"),
    html("p", {}, "The first decision will appear here. To request one:"),
    html("code", {}, `curl -X POST ${dashboard.usesTokens() ? "-H 'Authorization: Bearer <token>' " : ""}${location.origin}${address}/ask`));
  const verdict = createVerdictCard();
  const tiles = createTiles();
  const warnings = createWarnings();
  const alarms = createAlarmsCard(palette);
  const table = createArmsTable(palette, change, (arm) => send("POST", `${address}/arms`, { arm }, `${arm} was added.`));
  const chart = createSharesChart(palette);
  const looks = createLooksCard(palette);
  const events = createEventsCard();
  const charts = html("div", { class: "two" },
    html("section", { class: "card" }, html("h2", {}, createTerm("Shares of pulls over time", SHARES_TIP)), chart.node), looks.node);
  const content = html("div", { hidden: true }, verdict.node, warnings.node,
    html("div", { class: "cards" }, first, alarms.node, table.node, tiles.node, charts, events.node));
  table.node.append(html("div", { "aria-live": "assertive" }, message));
  about.append(policy, " · ", rewards, " · ", size);
  const loading = html("p", { class: "soft" }, "Loading …");
  const node = html("div", {}, html("div", { class: "title" }, html("a", { class: "back", href: "#/" }, "‹ All agents"),
    html("h1", { class: "name" }, name), about), loading, content);
  about.hidden = true;

  async function send(method, where, body, success) {
    message.hidden = true;
    try {
      await request(method, where, body);
      message.className = "message";
      setText(message, success);
    } catch (error) {
      message.className = "message bad";
      setText(message, `Failed: ${error.message}`);
      if (error.status === 401) dashboard.showLogin();
    }
    message.hidden = false;
    return !message.classList.contains("bad");
  }

  function change(arm, state) {
    const success = `${arm} ${state === "paused" ? "is paused" : "is active again"}.`;
    return send("PATCH", `${address}/arms/${encodeURIComponent(arm)}`, { state }, success);
  }

  function show(snapshot) {
    const report = parseReport(snapshot.report);
    palette.assign(snapshot.shares.arms);
    setText(policy, report.policy);
    const [text, tip] = REWARD_TIPS[report.rewards];
    setText(rewards, report.rewards === "gaussian" ? `${text} ${formatShort(report.scale)}` : text);
    explain(rewards, tip);
    setText(size, formatPlural(report.arms.length, "arm"));
    about.hidden = false;
    first.hidden = report.n_asks > 0;
    charts.hidden = report.n_asks === 0 && report.arms.every((arm) => !arm.n_looks);
    content.hidden = false;
    loading.hidden = true;
    verdict.show(report);
    tiles.show(report);
    warnings.show(report.warnings);
    alarms.show({ ...report, at: snapshot.at }, snapshot.shares);
    table.show(report, dashboard.mayChange(name));
    chart.show(snapshot.shares);
    looks.show(report);
    events.show(snapshot.events);
  }

  const stop = subscribe(`${address}/watch`, {
    onOpen: () => dashboard.showConnection("live"),
    onLost: () => dashboard.showConnection("lost"),
    onEvent(kind, data) {
      if (kind !== "report") return dashboard.showConnection("trouble", data.message);
      dashboard.showConnection("live");
      show(data);
    },
    onError(error) {
      if (error.status === 401) dashboard.showLogin();
      else dashboard.showEmpty(error.status === 404 ? "Agent not found" : "Access denied", error.message);
    },
  });
  return { node, stop, title: name };
}
