"""The page on production names every setting, metric and probe; test_site.py runs its commands."""

import re
from pathlib import Path

import pytest

import kibitz

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


def test_documented_limits_are_those_of_the_service():
    from kibitz.live.agent.history import BATCH_SIZE
    from kibitz.live.service import agents, group_commit, server

    assert f"{agents.MAX_IMPORT_BYTES // 2**20} MiB per request" in PAGE_TEXT
    assert f"at {group_commit.MAX_WAITING}, requests get 503" in PAGE_TEXT
    assert f"{group_commit.MAX_GROUP} all the time" in PAGE_TEXT
    assert f"transactions of {BATCH_SIZE} rows" in agents.import_history.endpoint.function.__doc__
    grace_seconds = int(re.search(r"terminationGracePeriodSeconds: (\d+)", PAGE_TEXT)[1])
    assert grace_seconds > server.MAX_STOP_SECONDS
