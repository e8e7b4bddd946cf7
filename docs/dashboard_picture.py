"""Write docs/dashboard.png, a screenshot of the dashboard after an afternoon of traffic.

The script needs Chromium and the extra `kibitz[test]`.
"""

import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

import kibitz

ROOT = Path(__file__).parents[1]
CLICK_RATES = {
    "plain": 0.04,
    "free shipping": 0.06,
    "ten off": 0.05,
    "countdown": 0.02,
    "reviews": 0.045,
}
LATE_ARM, LATE_RATE = "video", 0.075  # the arm is added after half of the visits
AFTERNOON_SECONDS = 6 * 3600.0
MEAN_DELAY_SECONDS = 40.0
PATIENCE_SECONDS = 900.0
VISITS_PER_BATCH = 10  # visits that ask at the same time


def simulate_traffic(agent, n_visits, look_rate, seed):
    """Let an agent serve visits of an afternoon. Clicks are reported after a delay."""
    rng = np.random.default_rng(seed)
    start = time.time() - AFTERNOON_SECONDS
    pending = []
    for visit in range(0, n_visits, VISITS_PER_BATCH):
        now = start + AFTERNOON_SECONDS * (visit + VISITS_PER_BATCH) / n_visits
        agent.now = lambda at=now: at
        due_reports = [report for report in pending if report[0] <= now]
        pending = [report for report in pending if report[0] > now]
        agent.tell([(id, reward) for _, id, reward in due_reports])
        keys = [f"visit-{4711 + visit + i}" for i in range(VISITS_PER_BATCH)]
        decisions = agent.ask(key=keys, n=VISITS_PER_BATCH)
        decisions += [
            agent.look() for _ in range(rng.binomial(VISITS_PER_BATCH, look_rate))
        ]
        for decision in decisions:
            if rng.random() < CLICK_RATES.get(decision.arm, LATE_RATE):
                due_at = now + rng.exponential(MEAN_DELAY_SECONDS)
                pending.append((due_at, decision.id, 1.0))
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
                arms=list(CLICK_RATES),
                rewards="bernoulli",
                seed=1,
                patience=PATIENCE_SECONDS,
                silence=0.0,
            )
        simulate_traffic(agent, n_visits, look_rate=0.08, seed=1)
        agent.pause("countdown")
        agent.close()
        with run_service(store) as port, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=find_browser(), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 1435})
            page.goto(f"http://127.0.0.1:{port}/#/checkout")
            page.get_by_text("They saved").wait_for(timeout=120_000)
            page.screenshot(path=ROOT / "docs" / "dashboard.png")
            browser.close()


if __name__ == "__main__":
    main()
