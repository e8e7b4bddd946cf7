// The table of arms: for each its share of the pulls, its mean with an interval, and what is waited for.

const ROWS = 20; // that are drawn unless all are asked for
const STATES = { paused: "paused", retired: "retired" };
const ORDERS = {
  added: ["as added", null],
  share: ["share of pulls", (arm) => arm.n_asked],
  mean: ["mean", (arm) => arm.mean ?? -Infinity],
  pending: ["pending", (arm) => arm.n_pending],
  looks: ["looks", (arm) => arm.n_looks],
};

/** One arm; `show` brings it up to date. */
function armRow(name, colours, change) {
  const swatch = html("span", { class: "swatch" });
  const tag = html("span", { class: "tag", hidden: true });
  const share = { bar: bar(), text: html("span", { class: "number" }) };
  const mean = { drawn: interval(), text: html("span", { class: "number" }), of: html("span", { class: "of" }) };
  const best = html("td", { class: "best", role: "cell", "data-label": "best?" });
  const count = (label) => html("td", { class: "number", role: "cell", "data-label": label });
  const [asked, pending, looks, lost] = [count("asked"), count("pending"), count("looks"), count("lost")];
  const button = html("button", { type: "button", class: "small", click: () => change(name, button.dataset.state) });
  const act = html("td", { class: "act", role: "cell" }, button);
  const node = html("tr", { role: "row" },
    html("th", { scope: "row", role: "rowheader" },
      html("div", { class: "who" }, swatch, html("span", { class: "name", title: name }, name), tag)),
    html("td", { class: "share", role: "cell" }, html("div", { class: "pair" }, share.bar.node, share.text)),
    html("td", { class: "mean", role: "cell" },
      html("div", { class: "interval" }, mean.drawn.node, mean.text, mean.of)),
    best, asked, pending, looks, lost, act);

  function show(arm, all) {
    set(swatch, "class", `swatch ${colours.of(name)}`);
    tag.hidden = !(arm.status in STATES);
    say(tag, STATES[arm.status] ?? "");
    node.classList.toggle("resting", arm.status in STATES);
    set(share.bar.full, "class", `bar ${colours.of(name)}`);
    share.bar.show(all.full ? arm.n_asked / all.full : 0);
    say(share.text, percent(arm.n_asked, all.n_asks));
    mean.drawn.show(arm, all.scale);
    say(mean.text, arm.mean === null ? "" : decimals(arm.mean, all.scale.decimals));
    say(mean.of, arm.mean === null ? "not seen yet" : `${decimals(arm.low, all.scale.decimals)} to ${decimals(arm.high, all.scale.decimals)}`);
    const may = arm.best >= all.delta;
    best.classList.toggle("may", may && arm.mean !== null);
    say(best, arm.mean === null ? "unknown" : may ? "may be" : `no, p < ${bound(arm.best)}`);
    say(asked, whole(arm.n_asked));
    say(pending, whole(arm.n_pending));
    say(looks, whole(arm.n_looks));
    say(lost, whole(arm.n_forgotten));
    const resume = arm.status === "paused";
    button.hidden = arm.status === "retired";
    button.dataset.state = resume ? "active" : "paused";
    say(button, resume ? "Resume" : "Pause");
    set(button, "aria-label", `${resume ? "Resume" : "Pause"} ${name}`);
  }
  return { node, show };
}

/** The next round number above a probability. */
function bound(p) {
  const power = Math.max(-99, Math.ceil(Math.log10(Math.max(p, 1e-99))));
  return power >= -4 ? String(Number((10 ** power).toPrecision(1))) : `1e${power}`;
}

/** The whole table; `change(arm, state)` and `add(arm)` ask the server. */
function armsTable(colours, change, add) {
  const rows = new Map();
  const scaleAxis = axis();
  const body = html("tbody", { role: "rowgroup" });
  const caption = html("caption", {});
  const last = html("th", { scope: "col", role: "columnheader", class: "act" }, html("span", { class: "hidden-text" }, "Change"));
  const head = (text, css = "") => html("th", { scope: "col", role: "columnheader", class: css }, text);
  const meanHead = html("th", { scope: "col", role: "columnheader", class: "mean" },
    html("span", {}, "Mean, with interval"),
    html("div", { class: "interval" }, scaleAxis.node, html("span"), html("span")));
  const table = html("table", { class: "arms", role: "table", "aria-label": "Arms" }, caption,
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" },
      head("Arm"), head("Share of pulls", "share"), meanHead, head("Best?"),
      head("Asked", "number"), head("Pending", "number"), head("Looks", "number"), head("Lost", "number"), last)),
    body);
  const order = html("select", { change: () => draw() },
    ...Object.entries(ORDERS).map(([key, [words]]) => html("option", { value: key }, words)));
  const find = html("input", { type: "search", placeholder: "part of a name", input: () => draw() });
  const finding = html("label", { hidden: true }, "Find", find);
  const more = html("button", { type: "button", class: "more", hidden: true, click: () => { every = !every; draw(); } });
  const name = html("input", { "aria-label": "Name of a new arm", placeholder: "name of a new arm", maxlength: 500, required: true });
  const form = html("form", { class: "row", submit: (event) => {
    event.preventDefault();
    add(name.value).then((done) => { if (done) name.value = ""; });
  } }, name, html("button", {}, "Add the arm"));
  const node = html("section", { class: "card" },
    html("div", { class: "head" }, html("h2", {}, "Arms"),
      html("div", { class: "tools" }, finding, html("label", {}, "Order", order))),
    table, more, form);
  let report = null;
  let every = false;
  let ordered = false;

  function draw() {
    if (!report) return;
    const words = find.value.trim().toLowerCase();
    const key = ORDERS[order.value][1];
    const found = report.arms.filter((arm) => arm.arm.toLowerCase().includes(words));
    if (key) found.sort((a, b) => key(b) - key(a));
    const shown = every ? found : found.slice(0, ROWS);
    const scale = scaleOf(shown, report.arms);
    const most = Math.max(...report.arms.map((arm) => arm.n_asked));
    const full = 10 * most > report.n_asks ? report.n_asks : most; // of what a full bar is all
    const all = { n_asks: report.n_asks, delta: report.delta, scale, full };
    scaleAxis.show(all.scale);
    arrange(body, shown.map((arm) => {
      if (!rows.has(arm.arm)) rows.set(arm.arm, armRow(arm.arm, colours, change));
      const row = rows.get(arm.arm);
      row.show(arm, all);
      return row.node;
    }));
    more.hidden = found.length <= ROWS;
    say(more, every ? `Show ${ROWS} only` : `Show all ${whole(found.length)}`);
    const sure = `${some(100 * (1 - report.delta), 2)} %`;
    const limit = all.scale ? " An arm whose interval ends before the dotted line is not the best one." : "";
    say(caption, found.length
      ? `All intervals hold together, at all times, with probability ${sure}.${limit}`
      : "No arm has such a name.");
  }

  return {
    node,
    show(data, mayChange) {
      report = data;
      const many = data.arms.length > ROWS;
      if (!ordered) order.value = many ? "share" : "added";
      ordered = true;
      finding.hidden = !many;
      form.hidden = !mayChange;
      table.classList.toggle("fixed", !mayChange);
      draw();
    },
  };
}
