"""Write docs/dashboard.png: the dashboard after an afternoon of traffic.

Needs Chromium and the extra `kibitz[test]`.
"""

import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

import kibitz

ROOT = Path(__file__).parents[1]
CONVERSION_RATES = {
    "plain": 0.2,
    "free shipping": 0.28,
    "ten off": 0.25,
    "countdown": 0.1,
    "reviews": 0.22,
}
LATE_ARM, LATE_RATE = "video", 0.32  # added at half-time
AFTERNOON_SECONDS = 6 * 3600.0
MEAN_DELAY_SECONDS = 40.0
REPORTED = 0.98  # share of decisions whose reward is reported
BATCH = 10  # visits that ask at the same time


def simulate_traffic(agent, n_visits, look_rate, seed):
    """Ask and look over an afternoon, and report rewards later; some never arrive."""
    rng = np.random.default_rng(seed)
    start = time.time() - AFTERNOON_SECONDS
    pending = []
    for visit in range(0, n_visits, BATCH):
        now = start + AFTERNOON_SECONDS * (visit + BATCH) / n_visits
        agent.now = lambda at=now: at
        due = [report for report in pending if report[0] <= now]
        pending = [report for report in pending if report[0] > now]
        agent.tell([(id, reward) for _, id, reward in due])
        keys = [f"visit-{4711 + visit + i}" for i in range(BATCH)]
        decisions = agent.ask(key=keys, n=BATCH)
        decisions += [agent.look() for _ in range(rng.binomial(BATCH, look_rate))]
        for decision in decisions:
            rate = CONVERSION_RATES.get(decision.arm, LATE_RATE)
            if rng.random() < REPORTED:
                due_at = now + rng.exponential(MEAN_DELAY_SECONDS)
                pending.append((due_at, decision.id, float(rng.random() < rate)))
        if visit == n_visits // 2:
            agent.add(LATE_ARM)
    agent.now = time.time


def main(n_visits=20_000):
    """Serve an agent with traffic, open its dashboard, and save a screenshot."""
    sys.path.append(str(ROOT / "tests"))
    from live.browser import find_browser, run_service
    from live.conftest import MEMORY
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        store = Path(folder) / "shop.db"
        created_at = time.time() - AFTERNOON_SECONDS
        with mock.patch("time.time", return_value=created_at):
            agent = kibitz.agent(
                store,
                "checkout",
                arms=list(CONVERSION_RATES),
                policy=kibitz.thompson(rewards="bernoulli"),
                scale=0.5,
                seed=1,
                patience=900.0,
            )
        simulate_traffic(agent, n_visits, look_rate=0.08, seed=1)
        agent.pause("countdown")
        agent.close()
        with run_service(store) as port, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find_browser(), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1200, "height": 1148})
            page.goto(f"http://127.0.0.1:{port}/#/checkout")
            page.get_by_text("They saved about").wait_for(timeout=120_000)
            page.screenshot(path=ROOT / "docs" / "dashboard.png")
            browser.close()


if __name__ == "__main__":
    main()
