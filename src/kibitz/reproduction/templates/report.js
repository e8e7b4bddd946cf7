(() => {
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const views = {};
  function config() {
    const ink = style("--ink"), soft = style("--soft"), line = style("--line");
    const font = "system-ui, sans-serif";
    return {
      background: "transparent", font: font,
      view: {stroke: null},
      range: {category: Array.from({length: 12}, (_, n) => style("--c" + n))},
      axis: {labelColor: soft, titleColor: ink, domainColor: soft, tickColor: soft, gridColor: line,
             gridOpacity: .6, labelFontSize: 11, titleFontSize: 12, titleFontWeight: "normal",
             labelOverlap: true},
      text: {fontSize: 11},
    };
  }
  async function draw(number) {
    const figure = document.getElementById("f" + number);
    figure.querySelector(".live").hidden = false;
    const old = views[number] || [];
    views[number] = await Promise.all(specs[number].map(async (spec, place) => {
      const themed = {...spec, params: spec.params.map(
        p => p.name === "ink" ? {...p, value: style("--soft")} : p)};
      const result = await vegaEmbed("#p" + number + "-" + place, themed, {
        mode: "vega-lite", renderer: "svg", actions: false, config: config(),
        tooltip: {theme: dark.matches ? "dark" : "light"}});
      return result;
    }));
    old.forEach(result => result.finalize());
    show(number);
    figure.querySelector(".static").style.display = "none";
  }
  function show(number) {
    const buttons = document.querySelectorAll("#f" + number + " .legend button");
    const hidden = [...buttons].filter(b => b.getAttribute("aria-pressed") === "false")
      .map(b => b.dataset.label);
    (views[number] || []).forEach(result => result.view.signal("hidden", hidden).runAsync());
  }
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!on));
      show(button.closest("figure").id.slice(1));
    });
  }
  const seen = new Set();
  const fail = number => error => {
    const figure = document.getElementById("f" + number);
    figure.querySelector(".live").hidden = true;
    figure.querySelector(".static").style.display = "";
    console.error(error);
  };
  const watcher = new IntersectionObserver(entries => {
    for (const entry of entries) {
      const number = entry.target.id.slice(1);
      if (entry.isIntersecting && !seen.has(number)) {
        seen.add(number);
        draw(number).catch(fail(number));
      }
    }
  }, {rootMargin: "800px"});
  document.querySelectorAll("figure").forEach(figure => watcher.observe(figure));
  dark.addEventListener("change", () => seen.forEach(number => draw(number).catch(fail(number))));
})();
