"""The page on production names every setting, metric and probe; test_site.py runs its commands."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from live.browser import find_browser, find_free_port, run_service, wait_until_up

import kibitz
from kibitz.live.service import auth

pytestmark = pytest.mark.slow

PAGE_TEXT = (Path(__file__).parents[2] / "docs" / "howto" / "production.md").read_text("utf-8")
YAML_BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE_TEXT, re.M | re.S)


@pytest.fixture
def metric_types(memory, service):
    """Return the type of each metric of a service with an agent, by name."""
    url = str(memory / "shop.db")
    kibitz.agent(url, "checkout", arms=["blue", "green"], rewards="bernoulli").close()
    running = service(url)
    running.send("POST", "/v1/agents/checkout/ask")
    text = running.send("GET", "/metrics")[2].decode()
    return dict(re.findall(r"^# TYPE (kibitz_\w+(?<!_created)) (\w+)$", text, re.M))


def test_every_metric_is_documented(metric_types):
    documented_names = re.findall(r"^\| `(kibitz_\w+)` \|", PAGE_TEXT, re.M)
    assert sorted(documented_names) == sorted(metric_types)


def test_alerts_use_metrics_that_exist(metric_types):
    alerts = next(block for block in YAML_BLOCKS if "alert:" in block)
    names = re.findall(r"\bkibitz_\w+", alerts)
    assert len(names) >= 5
    for name in names:
        base_name = name.removesuffix("_bucket")
        assert base_name in metric_types
        assert (metric_types[base_name] == "histogram") == name.endswith("_bucket")


def test_every_setting_is_documented():
    import typer

    from kibitz.cli import app

    documented_settings = {
        option: re.findall(r"`(\w+)`", variables)
        for variables, option in re.findall(r"^\| (`KIBITZ_.*?) \| `(--[\w-]+)` \|", PAGE_TEXT, re.M)
    }
    options = {
        option.opts[0]: option.envvar
        for option in typer.main.get_command(app).commands["serve"].params
        if option.name != "help"
    }
    assert {option: variables[0] for option, variables in documented_settings.items()} == options
    for variables in documented_settings.values():
        assert variables[1:] in ([], [f"{variables[0]}_FILE"])


def test_documented_probes_exist(memory, service):
    url = str(memory / "shop.db")
    kibitz.agent(url, "checkout", arms=["blue", "green"], rewards="bernoulli").close()
    paths = re.findall(r"path: (/\w+)", "".join(YAML_BLOCKS))
    assert paths == ["/livez", "/readyz"]
    running = service(url)
    assert [running.send("GET", path)[0] for path in paths] == [200, 200]


def test_the_documented_script_asks_from_a_page_of_another_site(memory):
    """A browser runs the script in a page of an allowed origin and in a page of another origin."""
    browser_path = find_browser()
    if browser_path is None:
        pytest.skip("no Chromium on this machine: the script was NOT tested in a browser")
    from playwright.sync_api import Error, sync_playwright

    url, script = str(memory / "shop.db"), re.search(r"^```js\n(.*?)^```", PAGE_TEXT, re.M | re.S)[1]
    with kibitz.agent(url, "banner", arms=["old", "new"], rewards="bernoulli", seed=1) as agent:
        token = auth.create_token(agent.store, "play", "banner")
    shop, folder = find_free_port(), memory / "shop"
    folder.mkdir()
    command = [sys.executable, "-m", "http.server", str(shop), "--directory", str(folder)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server,
        contextlib.ExitStack() as stack,
        run_service(url, allowed_origins=[f"http://localhost:{shop}"]) as port,
        sync_playwright() as playwright,
    ):
        stack.callback(server.terminate)
        script = script.replace("https://bandit.example", f"http://127.0.0.1:{port}")
        function = f"async ([token, visitor]) => {{ {script} return arm; }}"
        chromium = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = chromium.new_page()
        wait_until_up(shop)
        page.goto(f"http://localhost:{shop}/")
        assert page.evaluate(function, [token, "visitor-4"]) == "old"
        page.goto(f"http://127.0.0.1:{shop}/")
        with pytest.raises(Error, match="Failed to fetch"):
            page.evaluate(function, [token, "visitor-5"])
        chromium.close()
    with kibitz.agent(url, "banner") as agent:
        assert [event.key for event in agent.events() if event.kind == "pull"] == ["visitor-4"]


def test_documented_limits_agree_with_the_service():
    from kibitz.live.agent.history import BATCH_SIZE
    from kibitz.live.service import agents, group_commit, server

    assert f"{agents.MAX_IMPORT_BYTES // 2**20} MiB per request" in PAGE_TEXT
    assert f"at {group_commit.MAX_WAITING}, requests get 503" in PAGE_TEXT
    assert f"{group_commit.MAX_GROUP} all the time" in PAGE_TEXT
    assert f"transactions of {BATCH_SIZE} rows" in agents.import_history.endpoint.function.__doc__
    grace_seconds = int(re.search(r"terminationGracePeriodSeconds: (\d+)", PAGE_TEXT)[1])
    assert grace_seconds > server.MAX_STOP_SECONDS
