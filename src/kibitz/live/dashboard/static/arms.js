// The table of arms: share of pulls, mean with confidence interval, and counts.

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
  mean: "Mean of all reported rewards of the arm, from pulls and looks (dot), and a confidence interval for its true mean (bar).",
  best: "Whether the arm can still be the best one. It is ruled out when its interval lies below the interval of another arm.",
  asked: "Number of asks that were answered with this arm.",
  pending: "Pulls and looks of this arm whose reward has not been reported yet.",
  looks: "Reported looks at this arm. A look is an observation that costs no pull.",
  lost: "Pulls and looks of this arm that are no longer waited for: patience ran out, or they were forgotten. A late report still counts.",
};

/** Create the row of an arm; `show(arm, all)` updates it. */
function createArmRow(name, palette, change) {
  const swatch = html("span", { class: "swatch" });
  const tag = html("span", { class: "tag", hidden: true });
  const share = { bar: createBar(), text: html("span", { class: "number" }) };
  const mean = { interval: createInterval(), text: html("span", { class: "number" }), range: html("span", { class: "range" }) };
  const shareCell = html("td", { class: "share", role: "cell" }, html("div", { class: "pair" }, share.bar.node, share.text));
  const meanCell = html("td", { class: "mean", role: "cell" },
    html("div", { class: "interval" }, mean.interval.node, mean.text, mean.range));
  const best = html("td", { class: "best", role: "cell", "data-label": "best?" });
  const createCount = (label) => html("td", { class: "number", role: "cell", "data-label": label, "data-tip": ARM_TIPS[label] });
  const [asked, pending, looks, lost] = ["asked", "pending", "looks", "lost"].map(createCount);
  const button = html("button", { type: "button", class: "small", click: () => change(name, button.dataset.state) });
  const node = html("tr", { role: "row" },
    html("th", { scope: "row", role: "rowheader" },
      html("div", { class: "who" }, swatch, html("span", { class: "name", title: name }, name), tag)),
    shareCell, meanCell, best, asked, pending, looks, lost, html("td", { class: "act", role: "cell" }, button));

  function showMean(arm, all) {
    const known = arm.mean !== null;
    const [value, low, high] = [arm.mean, arm.low, arm.high].map((x) => formatDecimals(x, all.scale?.decimals ?? 0));
    mean.interval.show(arm, all.scale);
    setText(mean.text, known ? value : "");
    setText(mean.range, known ? `${low} to ${high}` : "no observations");
    explain(meanCell, known
      ? `Mean of ${formatPlural(arm.n_pulls + arm.n_looks, "reported reward")}: ${value}. The true mean is between ${low} and ${high}. ` +
        `All intervals are simultaneously valid, at all times, with probability ${all.level}.`
      : "This arm has no reported reward yet.");
  }

  function showBest(arm, all) {
    const possible = arm.best >= all.delta;
    const known = arm.mean !== null;
    best.classList.toggle("possible", possible && known);
    setText(best, !known ? "unknown" : possible ? "possible" : `ruled out, p < ${formatBound(arm.best)}`);
    explain(best, !known
      ? "Without a reported reward, this arm can neither be ruled out nor confirmed as the best one."
      : possible
        ? `This arm can still be the best one: its anytime-valid p-value, ${formatNumber(arm.best, 2)}, is at least ${all.delta}.`
        : `Anytime-valid p-value ${formatNumber(arm.best, 2)}: if this arm were the best one, the probability that ` +
          "the dashboard ever shows a p-value this small would be at most that.");
  }

  function show(arm, all) {
    const inactive = INACTIVE.includes(arm.status);
    setAttribute(swatch, "class", `swatch ${palette.getClass(name)}`);
    tag.hidden = !inactive;
    setText(tag, inactive ? arm.status : "");
    node.classList.toggle("inactive", inactive);
    setAttribute(share.bar.filled, "class", `bar ${palette.getClass(name)}`);
    share.bar.show(all.full ? arm.n_asked / all.full : 0);
    setText(share.text, formatShare(arm.n_asked, all.n_asks));
    explain(shareCell, `${formatCount(arm.n_asked)} of ${formatPlural(all.n_asks, "ask")} were answered with this arm.`);
    showMean(arm, all);
    showBest(arm, all);
    setText(asked, formatCount(arm.n_asked));
    setText(pending, formatCount(arm.n_pending));
    setText(looks, formatCount(arm.n_looks));
    setText(lost, formatCount(arm.n_forgotten));
    const paused = arm.status === "paused";
    button.hidden = arm.status === "retired";
    button.dataset.state = paused ? "active" : "paused";
    setText(button, paused ? "Resume" : "Pause");
    setAttribute(button, "aria-label", `${paused ? "Resume" : "Pause"} ${name}`);
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
  const meanHead = createHead("Mean, with interval", "mean", "mean");
  meanHead.append(html("div", { class: "interval" }, axis.node, html("span"), html("span")));
  const actHead = html("th", { scope: "col", role: "columnheader", class: "act" }, html("span", { class: "hidden-text" }, "Change"));
  const table = html("table", { class: "arms", role: "table", "aria-label": "Arms" }, caption,
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" },
      createHead("Arm"), createHead("Share of pulls", "share", "share"), meanHead, createHead("Best?", "best"),
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
    const scale = computeScale(visible, report.arms);
    const most = Math.max(...report.arms.map((arm) => arm.n_asked));
    const full = 10 * most > report.n_asks ? report.n_asks : most; // a full bar stands for this n_asked
    const level = `${formatNumber(100 * (1 - report.delta), 2)}\u00a0%`;
    const all = { n_asks: report.n_asks, delta: report.delta, level, scale, full };
    axis.show(scale);
    setChildren(body, visible.map((arm) => {
      if (!rows.has(arm.arm)) rows.set(arm.arm, createArmRow(arm.arm, palette, change));
      const row = rows.get(arm.arm);
      row.show(arm, all);
      return row.node;
    }));
    more.hidden = matches.length <= MAX_ROWS;
    setText(more, showAll ? `Show only ${MAX_ROWS}` : `Show all ${formatCount(matches.length)}`);
    const limit = scale ? " An arm is ruled out as the best one when its interval ends to the left of the dotted line." : "";
    setText(caption, matches.length
      ? `All intervals are simultaneously valid, at all times, with probability ${level}.${limit}`
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
