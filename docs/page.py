"""Make docs/page.png: the page with an afternoon of traffic. Needs Chromium and `kibitz[test]`."""

import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

import kibitz

ROOT = Path(__file__).parents[1]
RATES = {
    "plain": 0.2,
    "free shipping": 0.28,
    "ten off": 0.25,
    "countdown": 0.1,
    "reviews": 0.22,
}
LENGTH = 6 * 3600.0  # seconds
TOGETHER = 10  # visits that ask at a time


def traffic(agent, n_asks, rate, seed):
    """Ask, look at some rate, and tell later, over an afternoon; some reports never come."""
    draws = np.random.default_rng(seed)
    start = time.time() - LENGTH
    waiting = []
    for k in range(0, n_asks, TOGETHER):
        now = start + LENGTH * (k + TOGETHER) / n_asks
        agent.now = lambda at=now: at
        due = [one for one in waiting if one[0] <= now]
        waiting = [one for one in waiting if one[0] > now]
        agent.tell([(id, reward) for _, id, reward in due])
        keys = [f"visit-{4711 + k + i}" for i in range(TOGETHER)]
        decisions = agent.ask(key=keys, n=TOGETHER)
        decisions += [agent.look() for _ in range(draws.binomial(TOGETHER, rate))]
        for decision in decisions:
            paid = RATES.get(decision.arm, 0.32)
            if draws.random() < 0.98:
                due_at = now + draws.exponential(40.0)
                waiting.append((due_at, decision.id, float(draws.random() < paid)))
        if k == n_asks // 2:
            agent.add("video")
    agent.now = time.time


def main(n_asks=20_000):
    """Serve an agent with traffic, look at it, and write the picture."""
    sys.path.append(str(ROOT / "tests"))
    from live.browser import found_browser, served
    from live.conftest import MEMORY
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        store = Path(folder) / "shop.db"
        policy = kibitz.thompson(law="bernoulli")
        with mock.patch(
            "time.time", return_value=time.time() - LENGTH
        ):  # no log goes back in time
            agent = kibitz.agent(
                store,
                "checkout",
                arms=list(RATES),
                policy=policy,
                scale=0.5,
                seed=1,
                patience=900.0,
            )
        traffic(agent, n_asks, 0.08, seed=1)
        agent.pause("countdown")
        agent.close()
        with served(store) as port, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=found_browser(), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": 1200, "height": 1148})
            page.goto(f"http://127.0.0.1:{port}/#/checkout")
            page.get_by_text("They saved about").wait_for(timeout=120_000)
            page.screenshot(path=ROOT / "docs" / "page.png")
            browser.close()


if __name__ == "__main__":
    main()
