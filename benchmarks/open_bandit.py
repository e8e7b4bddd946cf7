"""Evaluate policies on the Open Bandit sample, and check one estimate against a second log.

The sample (Saito, Aihara, Matsutani and Narita, 2021) ships in the wheel of the package `obp`; it is
not part of kibitz. For each campaign, one log has 10,000 impressions of uniformly random items, like
a bucket of passive looks. A second log has 10,000 impressions of Thompson sampling (BTS). It shows
how much BTS really earned, so it can check the estimate from the first log. Run

    pip download --no-deps --only-binary :all: obp
    python benchmarks/open_bandit.py obp-*.whl
"""

import csv
import io
import sys
import zipfile
from collections import Counter

import numpy as np

import kibitz
from kibitz.bounds.concentration import sample_ratio_p_value
from kibitz.live.agent.confidence import unit_intervals
from kibitz.live.agent.evaluate import Evaluation

CAMPAIGNS = ("all", "men", "women")
DELTA = 0.05


def read_log(wheel: zipfile.ZipFile, policy: str, campaign: str) -> dict[str, list]:
    """Return the arms, items, clicks and probabilities of a log; an arm is an item at a position."""
    content = wheel.read(f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv").decode()
    rows = list(csv.DictReader(io.StringIO(content)))
    n_positions = len({row["position"] for row in rows})
    return {
        "arm": [f"{row['item_id']} in {row['position']}" for row in rows],
        "item": [row["item_id"] for row in rows],
        "reward": [float(row["click"]) for row in rows],
        "probability": [float(row["propensity_score"]) / n_positions for row in rows],
    }


def describe(name: str, result: Evaluation) -> str:
    """Format an evaluation as a line; rates are in per cent."""
    return (
        f"  {name:22}  {100 * result.value:5.2f} "
        f"({100 * result.low:4.2f} to {100 * result.high:4.2f})"
        f"  self-normalised {100 * result.self_normalised:5.2f}  matched {result.n_matched:5}"
        f"  visits for ± 0.1: {result.visits_needed:,.0f}"
    )


def main(file: str) -> None:
    with zipfile.ZipFile(file) as wheel:
        for campaign in CAMPAIGNS:
            uniform, bts = (read_log(wheel, policy, campaign) for policy in ("random", "bts"))
            items = Counter(uniform["item"])
            p_value = sample_ratio_p_value([*items.values()])
            n, clicks = len(bts["reward"]), sum(bts["reward"])
            low, high = unit_intervals(n, clicks, clicks, DELTA)
            print(f"{campaign}: {len(items)} items, {len(uniform['arm']):,} uniform impressions with")
            print(
                f"  {100 * np.mean(uniform['reward']):.2f} % clicks; sample-ratio p-value "
                f"{p_value:.2g}; BTS earned {100 * clicks / n:.2f} % "
                f"({100 * float(low):.2f} to {100 * float(high):.2f})"
            )
            shares = {arm: count / n for arm, count in Counter(bts["arm"]).items()}
            missing = sum(shares.pop(arm) for arm in [*shares] if arm not in uniform["arm"])
            shares = {arm: share / (1 - missing) for arm, share in shares.items()}
            options = {"delta": DELTA, "precision": 0.001, "seed": 1}
            print(describe("shares of BTS", kibitz.evaluate(uniform, shares, **options)))
            by_item = {**uniform, "arm": uniform["item"]}
            by_item["probability"] = [1 / len(items)] * len(uniform["item"])
            for policy in (kibitz.thompson("bernoulli"), kibitz.kibitzer(rewards="bernoulli")):
                print(describe(policy.name, kibitz.evaluate(by_item, policy, **options)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/open_bandit.py obp-0.4.1-py3-none-any.whl")
    main(sys.argv[1])
