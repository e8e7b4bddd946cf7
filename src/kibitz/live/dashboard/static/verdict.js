// Units of rewards, and the card with the verdict: the loss if you stop now, and the observations until a winner.

const UNITS = {
  bernoulli: {
    isRate: true, factor: 100, suffix: "\u00a0%", mean: "Click rate", counts: "Clicks / views",
    loss: "clicks in 100 views", oneLoss: "click in 100 views", observation: "view",
  },
  bounded: {
    isRate: true, factor: 100, suffix: "\u00a0%", mean: "Mean", counts: "Rewards",
    loss: "percentage points per pull", oneLoss: "percentage point per pull", observation: "observation",
  },
  gaussian: {
    isRate: false, factor: 1, suffix: "", mean: "Mean", counts: "Rewards",
    loss: "per pull", oneLoss: "per pull", observation: "observation",
  },
};
const VERDICT_TIPS = {
  verdict: "Which arm is the best one, or what you give up if you stop now. Decided by comparing the settled rewards of each pair of arms.",
  "Loss if you stop now": "Upper bound on the expected reward that you give up per pull if you keep the leading arm from now on. " +
    "It holds with this probability, however often you check and whatever policy chooses the arms.",
  "Likely loss": "Bayesian estimate of the same loss. It is a heuristic, not a bound.",
  "Until a winner": "Rough estimate of how many more observations a winner takes if the means and the shares of the arms stay as they are.",
};

/** Format the mean of an arm and the ends of its interval; the width determines the number of digits.
 *
 * One unit of the last digit is at most a twentieth of half the width.
 */
function formatInterval(arm, units) {
  const step = (units.factor * Math.max(arm.high - arm.low, 1e-12)) / 40;
  const decimals = Math.ceil(-Math.log10(step));
  const [mean, low, high] = [arm.mean, arm.low, arm.high].map((x) => formatDecimals(units.factor * x, decimals));
  return { mean: `${mean}${units.suffix}`, low, high: `${high}${units.suffix}` };
}

const isInUse = (arm) => arm.status !== "retired";
const isPossible = (arm, report) => arm.best > report.delta;

/** Return whether an arm is the winner: every other arm in use is ruled out. */
const isWinner = (arm, report) =>
  report.remaining === 0 && isInUse(arm) && isPossible(arm, report) && report.arms.filter(isInUse).length > 1;

/** Create the card with the verdict, which is at the top of the view of an agent. */
function createVerdictCard() {
  const sentence = html("p", { class: "sentence", "data-tip": VERDICT_TIPS.verdict });
  const [bound, likely, remaining] = Object.keys(VERDICT_TIPS).slice(1).map((label) => createTile(label, VERDICT_TIPS[label]));
  const figures = html("dl", { class: "figures" }, bound.node, likely.node, remaining.node);
  const node = html("section", { class: "card verdict" }, html("h2", {}, createTerm("Verdict", VERDICT_TIPS.verdict)), sentence, figures);

  function showLoss(report, units) {
    const { loss_high, loss_likely } = report;
    const high = loss_high === null ? "" : formatUpperBound(units.factor * loss_high);
    setText(bound.value, high ? `at most ${high}` : "no bound yet");
    setText(bound.note, `${high === "1" ? units.oneLoss : units.loss}; at ${formatLevel(report.delta)} confidence, however often you check`);
    setText(likely.value, loss_likely === null ? "–" : `about ${formatShort(Number((units.factor * loss_likely).toPrecision(1)))}`);
    setText(likely.note, loss_likely === null ? "no estimate yet" : `${units.loss}; an estimate`);
  }

  function showRemaining(report, units) {
    const unseen = report.arms.filter((arm) => isInUse(arm) && arm.mean === null).length;
    if (report.remaining === 0) {
      setText(remaining.value, "no rival left");
      setText(remaining.note, "all other arms are ruled out or retired");
    } else if (report.remaining !== null) {
      setText(remaining.value, `about ${formatCount(report.remaining)}`);
      setText(remaining.note, `more ${units.observation}s at the present pace`);
    } else {
      setText(remaining.value, "not in sight");
      setText(remaining.note, unseen ? `${formatPlural(unseen, "arm")} not seen yet` : `more than ten times the ${units.observation}s so far`);
    }
  }

  return {
    node,
    show(report) {
      const units = UNITS[report.rewards];
      const isSeen = report.arms.some((arm) => isInUse(arm) && arm.mean !== null);
      setText(sentence, report.verdict);
      figures.hidden = !isSeen; // before the first settled reward, the sentence says all
      if (!isSeen) return;
      showLoss(report, units);
      showRemaining(report, units);
    },
  };
}
