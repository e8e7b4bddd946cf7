// Elements and words. What comes from the server becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (typeof value === "boolean") node.toggleAttribute(name, value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Make an element of the page; a child that is a string stays a string. */
function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Put a text in place of another, if it is another. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute, if it is another. */
function set(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Bring the children of a node into an order, moving as few as possible, and keep the focus. */
function arrange(parent, children) {
  const focus = document.activeElement;
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  children.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
  if (focus && focus !== document.activeElement && parent.contains(focus)) focus.focus();
}

const WHOLE = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

const whole = (number) => WHOLE.format(number);

const signed = (text) => text.replace(/^-/, "−");

/** A number with some significant digits, as people write it. */
function some(number, digits = 3) {
  if (number === null || number === undefined) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e7 || size < 1e-4) return signed(number.toExponential(digits - 1).replace("e+", "e"));
  if (size >= 10 ** (digits - 1)) return signed(WHOLE.format(Math.round(number)));
  return signed(number.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size)))));
}

/** A number as short as it can be with some significant digits. */
const short = (number) => (Math.abs(number) >= 1e7 ? some(number) : signed(String(Number(number.toPrecision(4)))));

/** A number with as many decimals as its fellows. */
function decimals(number, count) {
  if (number === null || number === undefined) return "–";
  return count > 6 || Math.abs(number) >= 1e7 ? some(number) : signed(number.toFixed(count));
}

/** A share in per cent. */
function percent(part, all) {
  if (!all) return "–";
  const share = (100 * part) / all;
  if (share > 0 && share < 0.1) return "< 0.1 %";
  return `${share.toFixed(share < 10 && share > 0 ? 1 : 0)} %`;
}

/** A time of today as a clock shows it, another with its day. */
function moment(seconds) {
  const date = new Date(1000 * seconds);
  const today = date.toDateString() === new Date().toDateString();
  return (today ? CLOCK : DAY).format(date);
}

/** How long, in the largest unit that is not silly. */
function duration(seconds) {
  if (seconds < 1) return "less than a second";
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]]) {
    const count = Math.floor(seconds / size);
    if (count >= (size > 1 ? 2 : 1) || size === 1) return `${whole(count)} ${unit}${count === 1 ? "" : "s"}`;
  }
}

const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

/** Steps of 1, 2 or 5 times a power of ten between two numbers, some `count` of them. */
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step || 0);
  return { step, values: found };
}
