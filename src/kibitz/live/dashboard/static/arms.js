// The table of arms: share of pulls, mean or rate with confidence interval, and counts.

const MAX_ROWS = 20; // rows that are shown unless all rows are requested
const INACTIVE = ["paused", "retired"];
const ORDERS = {
  added: ["order added", null],
  share: ["share of pulls", (arm) => arm.n_asked],
  mean: ["mean", (arm) => arm.mean ?? -Infinity],
  pending: ["pending", (arm) => arm.n_pending],
  looks: ["looks", (arm) => arm.n_looks],
};
const ARM_TIPS = {
  share: "Share of all asks that were answered with this arm.",
  mean: "Mean of the settled rewards of the arm, from pulls and looks (dot), and a confidence interval for its true mean (bar).",
  best: "Whether the arm can still be the best one. Comparing pairs of arms rules out more arms than comparing their intervals.",
  counts: "Settled rewards of pulls and looks, on which mean, interval and verdict are based. If the agent counts silence as a reward, " +
    "a decision settles when its patience has passed; until then it is unsettled and does not count.",
  asked: "Number of asks that were answered with this arm.",
  pending: "Pulls and looks of this arm whose reward has not been reported yet.",
  looks: "Reported looks at this arm. A look is an observation that costs no pull.",
  lost: "Pulls and looks of this arm that are no longer waited for: patience ran out, or they were forgotten. A late report still counts.",
};

/** Create the row of an arm; `show(arm, all)` updates it, where `all` has the data that all rows share. */
function createArmRow(name, palette, change) {
  const swatch = html("span", { class: "swatch" });
  const tag = html("span", { class: "tag", hidden: true });
  const share = { bar: createBar(), text: html("span", { class: "number" }) };
  const mean = { interval: createInterval(), text: html("span", { class: "number" }), range: html("span", { class: "range" }) };
  const shareCell = html("td", { class: "share", role: "cell" }, html("div", { class: "pair" }, share.bar.node, share.text));
  const meanCell = html("td", { class: "mean", role: "cell" },
    html("div", { class: "interval" }, mean.interval.node, mean.text, mean.range));
  const best = html("td", { class: "best", role: "cell", "data-label": "best?" });
  const counts = { text: html("span"), unsettled: html("span", { class: "unsettled" }) };
  const countsCell = html("td", { class: "number counts", role: "cell" }, counts.text, counts.unsettled);
  const createCount = (label) => html("td", { class: "number", role: "cell", "data-label": label, "data-tip": ARM_TIPS[label] });
  const [asked, pending, looks, lost] = ["asked", "pending", "looks", "lost"].map(createCount);
  const button = html("button", { type: "button", class: "small", click: () => change(name, button.dataset.state) });
  const node = html("tr", { role: "row" },
    html("th", { scope: "row", role: "rowheader" },
      html("div", { class: "who" }, swatch, html("span", { class: "name", title: name }, name), tag)),
    shareCell, meanCell, countsCell, best, asked, pending, looks, lost, html("td", { class: "act", role: "cell" }, button));

  function showMean(arm, all) {
    mean.interval.show(arm, all.scale);
    if (arm.mean === null) {
      setText(mean.text, "");
      setText(mean.range, arm.n_unsettled ? "none settled yet" : "not seen yet");
      explain(meanCell, "This arm has no settled reward yet.");
      return;
    }
    const { mean: value, low, high } = formatInterval(arm, all.units);
    setText(mean.text, value);
    setText(mean.range, `${low} to ${high}`);
    const since = arm.since === null ? "" : ` since the change at about ${formatTime(arm.since)}`;
    explain(meanCell, `Mean of ${formatPlural(arm.n_settled, "settled reward")}${since}: ${value}. ` +
      `The true mean is between ${low} and ${high}. ${all.validity}`);
  }

  /** Show the number of settled rewards (clicks / views for rewards of 0 or 1) and of unsettled decisions. */
  function showCounts(arm, all) {
    const clicks = formatCount(Math.round((arm.mean ?? 0) * arm.n_settled));
    const isClicks = all.rewards === "bernoulli";
    setText(counts.text, isClicks ? `${clicks} / ${formatCount(arm.n_settled)}` : formatCount(arm.n_settled));
    counts.unsettled.hidden = arm.n_unsettled === 0;
    setText(counts.unsettled, `+ ${formatCount(arm.n_unsettled)} unsettled`);
    setAttribute(countsCell, "data-label", all.units.counts.toLowerCase());
    const settled = isClicks ? `${clicks} clicks in ${formatPlural(arm.n_settled, "settled view")}` : formatPlural(arm.n_settled, "settled reward");
    const unsettled = arm.n_unsettled
      ? ` ${formatPlural(arm.n_unsettled, "decision")} of this arm may still change, and count when the agent's patience has passed.` : "";
    const late = arm.n_late
      ? ` ${formatPlural(arm.n_late, "report")} arrived after the decision had settled and did not change the count.` : "";
    explain(countsCell, `${settled}, from pulls and looks.${unsettled}${late}`);
  }

  function describeBest(arm, all) {
    if (arm.mean === null) {
      return [arm.n_unsettled ? "unknown yet" : "not seen yet", "Without a settled reward, this arm can neither be ruled out nor win."];
    }
    const p = formatNumber(arm.best, 2);
    const retired = arm.status === "retired" ? " A retired arm is not part of the verdict." : "";
    if (!all.isPossible(arm)) {
      return [`ruled out,\np < ${formatPValue(arm.best)}`, `Anytime-valid p-value ${p}: if this arm were the best one, the probability ` +
        `that the dashboard ever shows a p-value this small would be at most this p-value.${retired}`];
    }
    if (all.isWinner(arm)) return ["best", `Every other arm is ruled out. The probability that a winner is ever wrong is at most ${all.delta}.`];
    return ["possible", `This arm can still be the best one: its anytime-valid p-value, ${p}, is above ${all.delta}.${retired}`];
  }

  function showBest(arm, all) {
    const [text, tip] = describeBest(arm, all);
    best.classList.toggle("possible", arm.mean !== null && all.isPossible(arm));
    setText(best, text);
    explain(best, tip);
  }

  function show(arm, all) {
    const isInactive = INACTIVE.includes(arm.status);
    setAttribute(swatch, "class", `swatch ${palette.getClass(name)}`);
    tag.hidden = !isInactive;
    setText(tag, isInactive ? arm.status : "");
    node.classList.toggle("inactive", isInactive);
    setAttribute(share.bar.filled, "class", `bar ${palette.getClass(name)}`);
    share.bar.show(all.full ? arm.n_asked / all.full : 0);
    setText(share.text, formatShare(arm.n_asked, all.n_asks));
    explain(shareCell, `${formatCount(arm.n_asked)} of ${formatPlural(all.n_asks, "ask")} were answered with this arm.`);
    showMean(arm, all);
    showCounts(arm, all);
    showBest(arm, all);
    setText(asked, formatCount(arm.n_asked));
    setText(pending, formatCount(arm.n_pending));
    setText(looks, formatCount(arm.n_looks));
    setText(lost, formatCount(arm.n_forgotten));
    const isPaused = arm.status === "paused";
    button.hidden = arm.status === "retired";
    button.dataset.state = isPaused ? "active" : "paused";
    setText(button, isPaused ? "Resume" : "Pause");
    setAttribute(button, "aria-label", `${isPaused ? "Resume" : "Pause"} ${name}`);
  }
  return { node, show };
}

/** Create the table; `change(arm, state)` and `add(arm)` send requests. */
function createArmsTable(palette, change, add) {
  const rows = new Map();
  const axis = createAxis();
  const body = html("tbody", { role: "rowgroup" });
  const caption = html("caption", {});
  const createHead = (label, key, css = "") => createHeader(label, ARM_TIPS[key], css, { role: "columnheader" });
  const meanHead = createHead("Mean", "mean", "mean");
  const countsHead = createHead("Rewards", "counts", "number");
  meanHead.append(html("div", { class: "interval" }, axis.node, html("span"), html("span")));
  const actHead = html("th", { scope: "col", role: "columnheader", class: "act" }, html("span", { class: "hidden-text" }, "Change"));
  const table = html("table", { class: "arms", role: "table", "aria-label": "Arms" }, caption,
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" },
      createHead("Arm"), createHead("Share of pulls", "share", "share"), meanHead, countsHead, createHead("Best?", "best"),
      createHead("Asked", "asked", "number"), createHead("Pending", "pending", "number"),
      createHead("Looks", "looks", "number"), createHead("Lost", "lost", "number"), actHead)),
    body);
  const order = html("select", { change: () => draw() },
    ...Object.entries(ORDERS).map(([key, [label]]) => html("option", { value: key }, label)));
  const find = html("input", { type: "search", placeholder: "part of a name", input: () => draw() });
  const findLabel = html("label", { hidden: true }, "Find", find);
  const more = html("button", { type: "button", class: "more", hidden: true, click: () => { showAll = !showAll; draw(); } });
  const name = html("input", { "aria-label": "Name of a new arm", placeholder: "name of a new arm", maxlength: 500, required: true });
  const form = html("form", { class: "row", submit: (event) => {
    event.preventDefault();
    add(name.value).then((added) => { if (added) name.value = ""; });
  } }, name, html("button", {}, "Add arm"));
  const node = html("section", { class: "card" },
    html("div", { class: "head" }, html("h2", {}, "Arms"),
      html("div", { class: "tools" }, findLabel, html("label", {}, "Sort by", order))),
    table, more, form);
  let report = null;
  let showAll = false;
  let hasOrder = false;

  function draw() {
    if (!report) return;
    const text = find.value.trim().toLowerCase();
    const key = ORDERS[order.value][1];
    const matches = report.arms.filter((arm) => arm.arm.toLowerCase().includes(text));
    if (key) matches.sort((a, b) => key(b) - key(a));
    const visible = showAll ? matches : matches.slice(0, MAX_ROWS);
    const units = UNITS[report.rewards];
    const scale = computeScale(visible, units);
    const mostAsked = Math.max(...report.arms.map((arm) => arm.n_asked));
    const full = 10 * mostAsked > report.n_asks ? report.n_asks : mostAsked; // number of asks that a full bar represents
    const condition = report.alarms.length ? ", if the means changed when the monitor says" : "";
    const validity = `All intervals are simultaneously valid, at all times, with probability ${formatLevel(report.delta)}${condition}.`;
    const all = {
      n_asks: report.n_asks, rewards: report.rewards, delta: report.delta, validity, units, scale, full,
      isPossible: (arm) => isPossible(arm, report), isWinner: (arm) => isWinner(arm, report),
    };
    axis.show(scale, units);
    setText(meanHead.firstChild, `${units.mean}, with interval`);
    setText(countsHead.firstChild, units.counts);
    setChildren(body, visible.map((arm) => {
      if (!rows.has(arm.arm)) rows.set(arm.arm, createArmRow(arm.arm, palette, change));
      const row = rows.get(arm.arm);
      row.show(arm, all);
      return row.node;
    }));
    more.hidden = matches.length <= MAX_ROWS;
    setText(more, showAll ? `Show only ${MAX_ROWS}` : `Show all ${formatCount(matches.length)}`);
    const [low, high] = scale ? [scale.low, scale.high].map((x) => formatShort(Number((units.factor * x).toPrecision(3)))) : [];
    const range = scale ? ` The axis goes from ${low} to ${high}${units.suffix}.` : "";
    setText(caption, matches.length
      ? `${validity}${range}`
      : "No arm matches.");
  }

  return {
    node,
    show(data, mayChange) {
      report = data;
      const isLong = data.arms.length > MAX_ROWS;
      if (!hasOrder) order.value = isLong ? "share" : "added";
      hasOrder = true;
      findLabel.hidden = !isLong;
      form.hidden = !mayChange;
      table.classList.toggle("fixed", !mayChange);
      draw();
    },
  };
}
