// Drawings: bars, intervals on a common scale, and the shares of pulls and the means over time.

const N_COLOURS = 7;
const CHART_HEIGHT = 220;
const CHART_LEFT = 38;
const CHART_BOTTOM = 24;
const MAX_LABEL = 18; // characters of a name inside the chart
const LABEL_HEIGHT = 16;
const CHARACTER_WIDTH = 6.8;
const MAX_STRETCH = 5; // the axis of rates ends at most at this multiple of the median upper end

/** Create a bar; `show(part)` fills this part of its width, from 0 to 1. */
function createBar(height = 8) {
  const filled = svg("rect", { class: "bar", height, rx: 2, width: "0%" });
  const node = svg("svg", { height, "aria-hidden": "true" },
    svg("rect", { class: "track", width: "100%", height, rx: 2 }), filled);
  return { node, filled, show: (part) => setAttribute(filled, "width", `${(100 * part).toFixed(2)}%`) };
}

/** Return the scale for the intervals of arms, or null if no arm has been seen. */
function computeScale(arms, units) {
  const seenArms = arms.filter((arm) => arm.mean !== null);
  if (!seenArms.length) return null;
  const { low, high } = units.isRate ? computeRateLimits(seenArms) : computeLimits(seenArms);
  return { low, high, values: computeTicks(low, high, units.isRate ? 5 : 4).values };
}

/** Return the limits for rates: from 0 to the largest upper end, but at most to a multiple of the median upper end. */
function computeRateLimits(seenArms) {
  const ends = seenArms.map((arm) => arm.high).sort((a, b) => a - b);
  const median = ends[Math.floor((ends.length - 1) / 2)];
  return { low: 0, high: Math.min(ends[ends.length - 1], MAX_STRETCH * median) };
}

/** Return limits that contain all means and most of the intervals. */
function computeLimits(seenArms) {
  const halves = seenArms.map((arm) => (arm.high - arm.low) / 2).sort((a, b) => a - b);
  const reach = 1.6 * halves[Math.floor((halves.length - 1) / 2)];
  const means = seenArms.map((arm) => arm.mean);
  let low = Math.max(Math.min(...seenArms.map((arm) => arm.low)), Math.min(...means) - reach);
  let high = Math.min(Math.max(...seenArms.map((arm) => arm.high)), Math.max(...means) + reach);
  if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
  const { step } = computeTicks(low, high, 4);
  return { low: Math.floor(low / step + 1e-9) * step, high: Math.ceil(high / step - 1e-9) * step };
}

const toPercent = (value, scale) => (100 * (value - scale.low)) / (scale.high - scale.low);
const clamp = (x) => Math.min(100, Math.max(0, x));

/** Create the axis above the intervals. */
function createAxis() {
  const node = svg("svg", { height: 14, "aria-hidden": "true" });
  let current = "";
  return {
    node,
    show(scale, units) {
      const key = scale ? `${scale.low} ${scale.high} ${units.suffix}` : "";
      if (key === current) return;
      current = key;
      node.replaceChildren(...(scale ? scale.values : []).map((value) => {
        const x = toPercent(value, scale);
        const anchor = x < 3 ? "start" : x > 97 ? "end" : "middle";
        const label = `${formatShort(units.factor * value)}${value ? units.suffix : ""}`;
        return svg("text", { x: `${x}%`, y: 11, class: "axis-text", "text-anchor": anchor }, label);
      }));
    },
  };
}

/** Create an interval with its mean. An arrow marks an end beyond the scale. */
function createInterval() {
  const reach = svg("line", { class: "reach", y1: 11, y2: 11 });
  const point = svg("circle", { class: "point", cy: 11, r: 3.5 });
  const arrows = [svg("text", { class: "axis-text", y: 15, x: "0%", "text-anchor": "start" }, "‹"),
    svg("text", { class: "axis-text", y: 15, x: "100%", "text-anchor": "end" }, "›")];
  const node = svg("svg", { height: 22, "aria-hidden": "true" },
    svg("line", { class: "axis", x1: "0%", x2: "100%", y1: 11, y2: 11 }), reach, point, ...arrows);
  return {
    node,
    show(arm, scale) {
      const isSeen = scale !== null && arm.mean !== null;
      for (const part of [reach, point]) part.toggleAttribute("hidden", !isSeen);
      const [low, high] = isSeen ? [toPercent(arm.low, scale), toPercent(arm.high, scale)] : [0, 100];
      arrows[0].toggleAttribute("hidden", !(isSeen && low < -0.01));
      arrows[1].toggleAttribute("hidden", !(isSeen && high > 100.01));
      if (!isSeen) return;
      setAttribute(reach, "x1", `${clamp(low).toFixed(2)}%`);
      setAttribute(reach, "x2", `${clamp(high).toFixed(2)}%`);
      setAttribute(point, "cx", `${clamp(toPercent(arm.mean, scale)).toFixed(2)}%`);
    },
  };
}

/** Create the palette that assigns colours to arms. An arm keeps its colour while it is in the chart. */
function createPalette() {
  const colours = new Map();
  return {
    getClass: (name) => (colours.has(name) ? `c${colours.get(name)}` : "others"),
    assign(names) {
      for (const name of [...colours.keys()]) if (!names.includes(name)) colours.delete(name);
      for (const name of names) {
        if (colours.has(name)) continue;
        const used = new Set(colours.values());
        for (let k = 0; k < N_COLOURS; k += 1) if (!used.has(k)) { colours.set(name, k); break; }
      }
    },
  };
}

/** Return the point in a layer at which a label fits best, and the height that the layer has around it. */
function findLabelPlace(layer, width) {
  let best = { height: 0 };
  for (let first = 0; first < layer.length; first += 1) {
    let [top, bottom] = [-Infinity, Infinity]; // the part of the layer that all columns share
    for (let last = first; last < layer.length; last += 1) {
      top = Math.max(top, layer[last].top);
      bottom = Math.min(bottom, layer[last].bottom);
      if (bottom - top <= best.height) break;
      if (layer[last].right - layer[first].left < width) continue;
      best = { height: bottom - top, x: (layer[first].left + layer[last].right) / 2, y: (top + bottom) / 2 };
      break;
    }
  }
  return best;
}

/** Create the chart of shares of pulls, with one layer for each arm. The pointer and the arrow keys select asks. */
function createSharesChart(palette) {
  const node = svg("svg", { class: "chart", role: "img", tabindex: 0 });
  const caption = html("p", { class: "small soft" });
  const legend = html("ul", { class: "legend" });
  const figure = html("figure", {}, caption, node, legend);
  let data = null;
  let layers = [];
  let selected = null;
  let n_asks = 0;

  function buildLayers(shares) {
    const armLayers = shares.arms.map((name, k) => ({ name, css: palette.getClass(name), counts: shares.counts[k] }));
    const otherCounts = shares.totals.map((total, t) => total - armLayers.reduce((sum, layer) => sum + layer.counts[t], 0));
    if (otherCounts.some((count) => count > 0)) armLayers.push({ name: "other arms", css: "others", counts: otherCounts });
    return armLayers;
  }

  const getEnd = (t) => Math.min(n_asks, (t + 1) * data.width);

  function draw() {
    const width = node.clientWidth;
    if (!data || !width || !data.totals.length) return node.replaceChildren();
    const x = (stage) => CHART_LEFT + ((width - CHART_LEFT - 1) * stage) / Math.max(1, n_asks);
    const y = (share) => 6 + (CHART_HEIGHT - CHART_BOTTOM - 6) * (1 - share);
    const parts = [];
    const labels = [];
    const below = data.totals.map(() => 0);
    for (const layer of layers) {
      const columns = [];
      data.totals.forEach((total, t) => {
        if (!total) return;
        const bottom = y(below[t]);
        below[t] += layer.counts[t] / total;
        columns.push({ left: x(t * data.width), right: x(getEnd(t)), top: y(below[t]), bottom });
      });
      const upper = columns.flatMap((c) => [`${c.left.toFixed(1)} ${c.top.toFixed(1)}`, `${c.right.toFixed(1)} ${c.top.toFixed(1)}`]);
      const lower = columns.flatMap((c) => [`${c.left.toFixed(1)} ${c.bottom.toFixed(1)}`, `${c.right.toFixed(1)} ${c.bottom.toFixed(1)}`]);
      parts.push(svg("path", { class: `layer ${layer.css}`, d: `M${upper.join("L")}L${lower.reverse().join("L")}Z` },
        svg("title", {}, layer.name)));
      const letters = [...layer.name];
      const label = letters.length > MAX_LABEL ? `${letters.slice(0, MAX_LABEL - 1).join("")}…` : layer.name;
      const found = findLabelPlace(columns, CHARACTER_WIDTH * [...label].length + 8);
      if (found.height >= LABEL_HEIGHT) labels.push(svg("text", { class: "layer-text", x: found.x, y: found.y + 4, "text-anchor": "middle" }, label));
    }
    parts.push(...labels);
    for (const share of [0, 0.5, 1]) {
      parts.push(svg("text", { class: "axis-text", x: CHART_LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`));
    }
    const marks = computeTicks(0, n_asks, Math.max(2, Math.min(6, Math.floor(width / 110)))).values;
    for (const stage of marks) {
      const anchor = stage === 0 ? "start" : x(stage) > width - 24 ? "end" : "middle";
      parts.push(svg("line", { class: "axis", x1: x(stage), x2: x(stage), y1: y(0), y2: y(0) + 4 }),
        svg("text", { class: "axis-text", x: x(stage), y: CHART_HEIGHT - 5, "text-anchor": anchor }, formatCount(stage)));
    }
    if (selected !== null) {
      const middle = x((selected * data.width + getEnd(selected)) / 2);
      parts.push(svg("line", { class: "cursor", x1: middle, x2: middle, y1: y(1), y2: y(0) }));
    }
    node.replaceChildren(...parts);
  }

  function describe() {
    if (!data || !data.totals.length) return;
    const t = selected ?? data.totals.length - 1;
    const total = data.totals[t];
    const since = data.since[t] === null ? "" : `, since ${formatTime(data.since[t])}`;
    const range = `asks ${formatCount(t * data.width + 1)} to ${formatCount(getEnd(t))}${since}`;
    setText(caption, `${selected === null ? "Latest" : "Selected"}: ${range}${data.whole ? "" : " (still loading the log)"}`);
    setChildren(legend, layers.map((layer, k) => {
      const item = legend.children[k] ?? html("li", {}, html("span", { class: "swatch" }), html("span", { class: "name" }), html("span", { class: "number" }));
      setAttribute(item.children[0], "class", `swatch ${layer.css}`);
      setText(item.children[1], layer.name);
      setAttribute(item.children[1], "title", layer.name);
      setText(item.children[2], formatShare(layer.counts[t], total));
      explain(item, `${layer.name}: ${formatCount(layer.counts[t])} of the ${formatPlural(total, "pull")} in ${range}.`);
      return item;
    }));
    const shares = layers.map((layer) => `${layer.name} ${formatShare(layer.counts[t], total)}`).join(", ");
    setAttribute(node, "aria-label", `Shares of pulls over time. ${range}: ${shares}. Use the arrow keys to select other asks.`);
  }

  function select(t) {
    if (!data || !data.totals.length) return;
    selected = t === null ? null : Math.min(data.totals.length - 1, Math.max(0, t));
    draw();
    describe();
  }

  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect();
    const stage = ((event.clientX - box.left - CHART_LEFT) / (box.width - CHART_LEFT - 1)) * n_asks;
    if (data) select(stage < 0 ? 0 : Math.floor(stage / data.width));
  });
  node.addEventListener("pointerleave", () => select(null));
  node.addEventListener("blur", () => select(null));
  node.addEventListener("keydown", (event) => {
    const last = (data?.totals.length ?? 0) - 1;
    const targets = { ArrowLeft: (selected ?? last) - 1, ArrowRight: (selected ?? last) + 1, Home: 0, End: last, Escape: null };
    if (!(event.key in targets)) return;
    event.preventDefault();
    select(targets[event.key]);
  });
  new ResizeObserver(draw).observe(node);
  return {
    node: figure,
    show(shares) {
      data = shares;
      n_asks = shares.totals.reduce((sum, total) => sum + total, 0);
      layers = buildLayers(shares);
      if (selected !== null) selected = Math.min(selected, shares.totals.length - 1);
      draw();
      describe();
    },
  };
}

/** Return the periods between the changes of an arm as {from, to, mean}, in asks; `getStage` maps a time to an ask. */
function listRegimes(arm, alarms, getStage, n_asks) {
  const regimes = [];
  for (const alarm of alarms.filter((a) => a.arm === arm.arm)) {
    regimes.push({ from: regimes.at(-1)?.to ?? 0, to: getStage(alarm.since_at), mean: alarm.mean_before });
  }
  if (arm.mean !== null) regimes.push({ from: regimes.at(-1)?.to ?? 0, to: n_asks, mean: arm.mean });
  return regimes;
}

/** Create the chart of the mean of each arm over time, with a mark at each change. */
function createMeansChart(palette) {
  const node = svg("svg", { class: "chart", role: "img" });
  const legend = html("ul", { class: "legend" });
  const caption = html("p", { class: "small soft" }, "Thin lines: mean of the settled rewards in each period of asks. " +
    "Thick lines: mean from one change of the arm to the next. A triangle marks a change.");
  const figure = html("figure", {}, node, legend, caption);
  let data = null;
  let report = null;

  /** Return the ask at a time, interpolated between the first asks of the intervals. */
  function getStage(time) {
    const starts = data.since.flatMap((since, t) => (since === null ? [] : [[since, t * data.width]]));
    const next = starts.findIndex(([since]) => since > time);
    if (next === 0 || !starts.length) return 0;
    const [since, stage] = starts.at(next - 1);
    const [end, last] = next < 0 ? [Math.max(time, report.at), report.n_asks] : starts[next];
    return stage + ((last - stage) * (time - since)) / Math.max(end - since, 1e-9);
  }

  function draw() {
    const width = node.clientWidth;
    if (!data || !width || !data.totals.length) return node.replaceChildren();
    const units = UNITS[report.rewards];
    const n_asks = report.n_asks;
    const lines = data.arms.map((name, k) => {
      const arm = report.arms.find((a) => a.arm === name);
      return { name, css: palette.getClass(name), means: data.means[k], regimes: listRegimes(arm, report.alarms, getStage, n_asks) };
    });
    const levels = lines.flatMap((line) => line.regimes.map((regime) => regime.mean));
    if (!levels.length) return node.replaceChildren();
    const all = [...levels, ...lines.flatMap((line) => line.means.filter((mean) => mean !== null))];
    let [low, high] = [Math.min(...all), Math.max(...all)];
    if (units.isRate) [low, high] = [0, Math.min(high, 3 * Math.max(...levels))];
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    const x = (stage) => CHART_LEFT + ((width - CHART_LEFT - 1) * stage) / Math.max(1, n_asks);
    const y = (mean) => 6 + (CHART_HEIGHT - CHART_BOTTOM - 6) * (1 - clamp(toPercent(mean, { low, high })) / 100);
    const parts = [];
    for (const value of computeTicks(low, high, 4).values) {
      parts.push(svg("line", { class: "axis", x1: CHART_LEFT, x2: width, y1: y(value), y2: y(value) }),
        svg("text", { class: "axis-text", x: CHART_LEFT - 6, y: y(value) + 4, "text-anchor": "end" },
          `${formatShort(units.factor * value)}${value ? units.suffix : ""}`));
    }
    for (const stage of computeTicks(0, n_asks, Math.max(2, Math.min(6, Math.floor(width / 110)))).values) {
      const anchor = stage === 0 ? "start" : x(stage) > width - 24 ? "end" : "middle";
      parts.push(svg("text", { class: "axis-text", x: x(stage), y: CHART_HEIGHT - 5, "text-anchor": anchor }, formatCount(stage)));
    }
    const drawSteps = (steps) => steps.map(({ from, to, mean }, k) =>
      `${k && steps[k - 1].to === from ? "L" : "M"}${x(from).toFixed(1)} ${y(mean).toFixed(1)}L${x(to).toFixed(1)} ${y(mean).toFixed(1)}`).join("");
    for (const { name, css, means, regimes } of lines) {
      const steps = means.flatMap((mean, t) => (mean === null ? []
        : [{ from: t * data.width, to: Math.min(n_asks, (t + 1) * data.width), mean }]));
      parts.push(svg("path", { class: `line ${css}`, d: drawSteps(steps) }),
        svg("path", { class: `line regime ${css}`, d: drawSteps(regimes) }, svg("title", {}, name)));
    }
    for (const alarm of report.alarms) {
      const [left, top] = [x(getStage(alarm.since_at)), y(alarm.mean_after)];
      parts.push(svg("path", { class: `mark ${palette.getClass(alarm.arm)}`, d: `M${left - 6} ${top + 11}h12l-6 -10z` },
        svg("title", {}, alarm.sentence)));
    }
    node.replaceChildren(...parts);
  }

  function describe() {
    const { factor, suffix } = UNITS[report.rewards];
    const seenArms = data.arms.map((name) => report.arms.find((arm) => arm.arm === name)).filter((arm) => arm.mean !== null);
    const texts = seenArms.map((arm) => `${formatNumber(factor * arm.mean)}${suffix}`);
    setChildren(legend, seenArms.map((arm, k) => {
      const item = legend.children[k] ?? html("li", {}, html("span"), html("span", { class: "name" }), html("span", { class: "number" }));
      setAttribute(item.children[0], "class", `swatch ${palette.getClass(arm.arm)}`);
      setText(item.children[1], arm.arm);
      setText(item.children[2], texts[k]);
      return item;
    }));
    const means = seenArms.map((arm, k) => `${arm.arm} ${texts[k]}`).join(", ");
    setAttribute(node, "aria-label", `Means over time. ${formatPlural(report.alarms.length, "change")}. Latest means: ${means}.`);
  }

  new ResizeObserver(draw).observe(node);
  return {
    node: figure,
    show(shares, current) {
      [data, report] = [shares, current];
      figure.hidden = !shares.means.length || !shares.totals.length;
      if (figure.hidden) return;
      draw();
      describe();
    },
  };
}
