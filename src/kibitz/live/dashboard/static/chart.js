// What is drawn: bars, intervals on a common scale, and shares of pulls over the asks.

const COLOURS = 7;
const HEIGHT = 220;
const LEFT = 38;
const BOTTOM = 24;

/** A bar that fills a part of its width; `show(part)` draws it anew. */
function bar(height = 8) {
  const full = svg("rect", { class: "bar", height, rx: 2, width: "0%" });
  const drawn = svg("svg", { height, "aria-hidden": "true" },
    svg("rect", { class: "track", width: "100%", height, rx: 2 }), full);
  return { node: drawn, full, show: (part) => set(full, "width", `${(100 * part).toFixed(2)}%`) };
}

/** The scale on which intervals are drawn: the means, and as much as most intervals need. */
function scaleOf(arms, all) {
  const seen = arms.filter((arm) => arm.mean !== null && arm.low !== null && arm.high !== null);
  if (!seen.length) return null;
  const limit = Math.max(...all.map((arm) => arm.low ?? -Infinity)); // the best arm is not below it
  const halves = seen.map((arm) => (arm.high - arm.low) / 2).sort((a, b) => a - b);
  const reach = 1.6 * halves[Math.floor((halves.length - 1) / 2)];
  const means = seen.map((arm) => arm.mean);
  let low = Math.max(Math.min(...seen.map((arm) => arm.low)), Math.min(...means) - reach);
  let high = Math.min(Math.max(...seen.map((arm) => arm.high)), Math.max(...means) + reach);
  if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
  const { step } = ticks(low, high, 4);
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  const decimals = Math.max(0, 1 - Math.floor(Math.log10(halves[0] || 1)));
  return { low, high, decimals, values: ticks(low, high, 4).values, limit };
}

const place = (value, scale) => (100 * (value - scale.low)) / (scale.high - scale.low);
const inside = (x) => Math.min(100, Math.max(0, x));

/** The numbers of the scale, above the intervals. */
function axis() {
  const node = svg("svg", { height: 14, "aria-hidden": "true" });
  let shown = "";
  return {
    node,
    show(scale) {
      const key = scale ? `${scale.low} ${scale.high}` : "";
      if (key === shown) return;
      shown = key;
      node.replaceChildren(...(scale ? scale.values : []).map((value, k, all) => {
        const x = place(value, scale);
        const anchor = x < 3 ? "start" : x > 97 ? "end" : "middle";
        return svg("text", { x: `${x}%`, y: 11, class: "axis-text", "text-anchor": anchor },
          short(value));
      }));
    },
  };
}

/** An interval with its mean; where it goes beyond the scale, its end is an arrow. */
function interval() {
  const reach = svg("line", { class: "reach", y1: 11, y2: 11 });
  const limit = svg("line", { class: "limit", y1: 0, y2: 22 });
  const point = svg("circle", { class: "point", cy: 11, r: 3.5 });
  const ends = [svg("text", { class: "axis-text", y: 15, x: "0%", "text-anchor": "start" }, "‹"),
    svg("text", { class: "axis-text", y: 15, x: "100%", "text-anchor": "end" }, "›")];
  const node = svg("svg", { height: 22, "aria-hidden": "true" },
    svg("line", { class: "axis", x1: "0%", x2: "100%", y1: 11, y2: 11 }), limit, reach, point, ...ends);
  return {
    node,
    show(arm, scale) {
      const known = scale !== null && arm.mean !== null && arm.low !== null;
      for (const part of [reach, point]) part.toggleAttribute("hidden", !known);
      limit.toggleAttribute("hidden", scale === null);
      if (scale) for (const x of ["x1", "x2"]) set(limit, x, `${inside(place(scale.limit, scale)).toFixed(2)}%`);
      const [low, high] = known ? [place(arm.low, scale), place(arm.high, scale)] : [0, 100];
      ends[0].toggleAttribute("hidden", !(known && low < -0.01));
      ends[1].toggleAttribute("hidden", !(known && high > 100.01));
      if (!known) return;
      set(reach, "x1", `${inside(low).toFixed(2)}%`);
      set(reach, "x2", `${inside(high).toFixed(2)}%`);
      set(point, "cx", `${inside(place(arm.mean, scale)).toFixed(2)}%`);
    },
  };
}

/** Which colour each arm has: those of the chart keep theirs for as long as they are in it. */
function palette() {
  const taken = new Map();
  return {
    of: (name) => (taken.has(name) ? `c${taken.get(name)}` : "others"),
    keep(names) {
      for (const name of [...taken.keys()]) if (!names.includes(name)) taken.delete(name);
      for (const name of names) {
        if (taken.has(name)) continue;
        const used = new Set(taken.values());
        for (let k = 0; k < COLOURS; k += 1) if (!used.has(k)) { taken.set(name, k); break; }
      }
    },
  };
}

/** Shares of the pulls over the asks, one layer an arm; a pointer or the arrow keys read it. */
function sharesChart(colours) {
  const node = svg("svg", { class: "chart", role: "img", tabindex: 0 });
  const caption = html("p", { class: "small soft" });
  const legend = html("ul", { class: "legend" });
  const figure = html("figure", {}, caption, node, legend);
  let data = null;
  let layers = [];
  let chosen = null;
  let n_asks = 0;

  function layersOf(shares) {
    const named = shares.arms.map((name, k) => ({ name, css: colours.of(name), counts: shares.counts[k] }));
    const rest = shares.totals.map((total, t) => total - named.reduce((sum, layer) => sum + layer.counts[t], 0));
    if (rest.some((count) => count > 0)) named.push({ name: "all others", css: "others", counts: rest });
    return named;
  }

  const end = (t) => Math.min(n_asks, (t + 1) * data.width);

  function draw() {
    const width = node.clientWidth;
    if (!data || !width || !data.totals.length) return node.replaceChildren();
    const x = (stage) => LEFT + ((width - LEFT - 1) * stage) / Math.max(1, n_asks);
    const y = (share) => 6 + (HEIGHT - BOTTOM - 6) * (1 - share);
    const parts = [];
    const below = data.totals.map(() => 0);
    for (const layer of layers) {
      const above = [];
      const under = [];
      data.totals.forEach((total, t) => {
        if (!total) return;
        const from = below[t];
        below[t] = from + layer.counts[t] / total;
        above.push(`${x(t * data.width).toFixed(1)} ${y(below[t]).toFixed(1)}`, `${x(end(t)).toFixed(1)} ${y(below[t]).toFixed(1)}`);
        under.push(`${x(t * data.width).toFixed(1)} ${y(from).toFixed(1)}`, `${x(end(t)).toFixed(1)} ${y(from).toFixed(1)}`);
      });
      parts.push(svg("path", { class: `layer ${layer.css}`, d: `M${above.join("L")}L${under.reverse().join("L")}Z` }));
    }
    for (const share of [0, 0.5, 1]) {
      parts.push(svg("text", { class: "axis-text", x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`));
    }
    const marks = ticks(0, n_asks, Math.max(2, Math.min(6, Math.floor(width / 110)))).values;
    for (const stage of marks) {
      const anchor = stage === 0 ? "start" : x(stage) > width - 24 ? "end" : "middle";
      parts.push(svg("line", { class: "axis", x1: x(stage), x2: x(stage), y1: y(0), y2: y(0) + 4 }),
        svg("text", { class: "axis-text", x: x(stage), y: HEIGHT - 5, "text-anchor": anchor }, whole(stage)));
    }
    if (chosen !== null) {
      const middle = x((chosen * data.width + end(chosen)) / 2);
      parts.push(svg("line", { class: "cursor", x1: middle, x2: middle, y1: y(1), y2: y(0) }));
    }
    node.replaceChildren(...parts);
  }

  function read() {
    if (!data || !data.totals.length) return;
    const t = chosen ?? data.totals.length - 1;
    const total = data.totals[t];
    const since = data.since[t] === null ? "" : `, since ${moment(data.since[t])}`;
    const words = `asks ${whole(t * data.width + 1)} to ${whole(end(t))}${since}`;
    say(caption, `${chosen === null ? "Latest" : "Chosen"}: ${words}${data.whole ? "" : " (the log is still being read)"}`);
    arrange(legend, layers.map((layer, k) => {
      const item = legend.children[k] ?? html("li", {}, html("span", { class: "swatch" }), html("span", { class: "name" }), html("span", { class: "number" }));
      set(item.children[0], "class", `swatch ${layer.css}`);
      say(item.children[1], layer.name);
      set(item.children[1], "title", layer.name);
      say(item.children[2], percent(layer.counts[t], total));
      return item;
    }));
    const shares = layers.map((layer) => `${layer.name} ${percent(layer.counts[t], total)}`).join(", ");
    set(node, "aria-label", `Shares of the pulls over the asks. ${words}: ${shares}. Arrow keys read other asks.`);
  }

  function choose(t) {
    if (!data || !data.totals.length) return;
    chosen = t === null ? null : Math.min(data.totals.length - 1, Math.max(0, t));
    draw();
    read();
  }

  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect();
    const stage = ((event.clientX - box.left - LEFT) / (box.width - LEFT - 1)) * n_asks;
    if (data) choose(stage < 0 ? 0 : Math.floor(stage / data.width));
  });
  node.addEventListener("pointerleave", () => choose(null));
  node.addEventListener("blur", () => choose(null));
  node.addEventListener("keydown", (event) => {
    const last = (data?.totals.length ?? 0) - 1;
    const to = { ArrowLeft: (chosen ?? last) - 1, ArrowRight: (chosen ?? last) + 1, Home: 0, End: last, Escape: null };
    if (!(event.key in to)) return;
    event.preventDefault();
    choose(to[event.key]);
  });
  new ResizeObserver(draw).observe(node);
  return {
    node: figure,
    show(shares) {
      data = shares;
      n_asks = shares.totals.reduce((sum, total) => sum + total, 0);
      layers = layersOf(shares);
      if (chosen !== null) chosen = Math.min(chosen, shares.totals.length - 1);
      draw();
      read();
    },
  };
}
