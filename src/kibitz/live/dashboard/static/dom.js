// Create elements, format values and show explanations. Text from the server is never inserted as markup.

const SVG = "http://www.w3.org/2000/svg";

function setUp(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (typeof value === "boolean") node.toggleAttribute(name, value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Create an HTML element. */
function html(tag, attributes = {}, ...children) {
  return setUp(document.createElement(tag), attributes, children);
}

/** Create an SVG element. */
function svg(tag, attributes = {}, ...children) {
  return setUp(document.createElementNS(SVG, tag), attributes, children);
}

/** Set the text of a node, unless the node already has this text. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute of a node, unless it already has this value. */
function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Make `children` the children of a node, moving as few as possible and keeping the focus. */
function setChildren(parent, children) {
  const focus = document.activeElement;
  const kept = new Set(children);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
  if (focus && focus !== document.activeElement && parent.contains(focus)) focus.focus();
}

// ---------------------------------------------------------------------------------- explanations

/** Explain a node on hover and on tap. `createTerm` also makes the explanation reachable by keyboard. */
const explain = (node, text) => setAttribute(node, "data-tip", text);

/** Create a label whose explanation appears on hover, on tap and on keyboard focus. */
function createTerm(label, text) {
  return html("button", { type: "button", class: "term", "data-tip": text }, label);
}

/** Create the cell of a table header, with an explanation of its column. */
function createHeader(label, text = "", css = "", attributes = {}) {
  return html("th", { scope: "col", class: css, ...attributes }, text ? createTerm(label, text) : label);
}

/** Show explanations in one small popover. */
function installTips() {
  const tip = document.getElementById("tip");
  let target = null;
  let tapped = null;

  function hide() {
    target?.removeAttribute("aria-describedby");
    target = tapped = null;
    tip.hidden = true;
  }

  function show(node) {
    if (!node) return hide();
    if (target !== node) hide();
    target = node;
    setText(tip, node.dataset.tip);
    tip.hidden = false;
    const box = node.getBoundingClientRect();
    const left = Math.min(box.left, innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${fits ? below : Math.max(8, box.top - tip.offsetHeight - 6)}px`;
    node.setAttribute("aria-describedby", "tip");
  }

  const find = (event) => (event.target instanceof Element ? event.target.closest("[data-tip]") : null);
  document.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") show(find(event)); });
  document.addEventListener("click", (event) => {
    const node = find(event);
    if (node && node === tapped) return hide();
    show(node);
    tapped = node;
  });
  document.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) show(find(event)); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", hide, { passive: true, capture: true });
}

// --------------------------------------------------------------------------------------- formats

const COUNT = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

const formatCount = (number) => COUNT.format(number);

/** Replace the hyphen of a negative number by a minus sign; remove the sign of zero. */
const formatSign = (text) => (/[1-9]/.test(text) ? text.replace(/^-/, "−") : text.replace(/^-/, ""));

/** Format a number with `digits` significant digits. */
function formatNumber(number, digits = 3) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e7 || size < 1e-4) return formatSign(number.toExponential(digits - 1).replace("e+", "e"));
  if (size >= 10 ** (digits - 1)) return formatSign(COUNT.format(Math.round(number)));
  return formatSign(number.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size)))));
}

/** Format a number with up to four significant digits and no trailing zeros. */
const formatShort = (number) =>
  (Math.abs(number) >= 1e7 ? formatNumber(number) : formatSign(String(Number(number.toPrecision(4)))));

/** Format a number with `count` decimals. Tiny and huge numbers get an exponent. */
function formatDecimals(number, count) {
  const power = number ? Math.floor(Math.log10(Math.abs(number))) : 0;
  if (count <= 6 && power < 7) return formatSign(number.toFixed(Math.max(0, count)));
  const digits = Math.min(15, Math.max(0, power + count));
  return formatSign(number.toExponential(digits).replace("e+", "e"));
}

/** Format an upper bound that is not negative with two significant digits, rounded up. */
function formatUpperBound(number) {
  if (number === 0) return "0";
  const step = 10 ** (Math.floor(Math.log10(number)) - 1);
  return formatShort(Number((Math.ceil(number / step - 1e-9) * step).toPrecision(2)));
}

/** Format a share as a percentage. */
function formatShare(part, all) {
  if (!all) return "–";
  const share = (100 * part) / all;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  return `${share.toFixed(share < 10 && share > 0 ? 1 : 0)} %`;
}

/** Format a p-value as an upper bound, rounded up to one significant digit. */
function formatPValue(p) {
  const power = Math.floor(Math.log10(Math.max(p, 1e-99)));
  const bound = (Math.floor(p / 10 ** power) + 1) * 10 ** power;
  return bound >= 1e-4 ? String(Number(bound.toPrecision(1))) : bound.toExponential(0);
}

/** Format the probability 1 - delta as a percentage. */
const formatLevel = (delta) => `${formatShort(100 * (1 - delta))}\u00a0%`;

/** Format a time of today as hours, minutes and seconds, and any other time with its day. */
function formatTime(seconds) {
  const date = new Date(1000 * seconds);
  const today = date.toDateString() === new Date().toDateString();
  return (today ? CLOCK : DAY).format(date);
}

/** Format a duration in its largest suitable unit. */
function formatDuration(seconds) {
  if (seconds < 1) return "less than a second";
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]]) {
    const count = Math.floor(seconds / size);
    if (count >= (size > 1 ? 2 : 1) || size === 1) return formatPlural(count, unit);
  }
}

const formatPlural = (count, one, many = `${one}s`) => `${formatCount(count)} ${count === 1 ? one : many}`;

/** Return about `count` multiples of a round step (1, 2 or 5 times a power of ten) in [low, high]. */
function computeTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) values.push(k * step || 0);
  return { step, values };
}
