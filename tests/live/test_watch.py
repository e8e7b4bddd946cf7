"""The page in a real browser, against a real server on the loopback."""

import contextlib
import json
import re
import time

import pytest
from live.browser import Process, Watcher, fetched, find_browser, served

import kibitz
from kibitz.live.service import auth as tokens
from kibitz.live.store import connect

pytestmark = pytest.mark.slow

FIRST = 60.0  # seconds for the first picture: the service imports what it needs
ARMS = ["blue", "green", "red"]
NASTY = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a/b?c#d&e\"f'%2F", "x" * 500]


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium on this machine: the page was NOT tried in a browser")
    import scipy.stats  # noqa: F401 (what the first report imports)
    import xarray  # noqa: F401
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def store(memory):
    return memory / "shop.db"


@pytest.fixture
def serve():
    """Return how to serve a store; it is served until the watchers have left."""
    with contextlib.ExitStack() as served_ones:
        yield lambda store: served_ones.enter_context(served(store))


@pytest.fixture
def watch(browser, serve):
    """Return how to open a watcher; in the end nothing was logged, and nobody else asked."""
    watchers = []

    def opened(port, path="/", **options):
        watcher = Watcher(browser, port, **options)
        watchers.append(watcher)
        watcher.page.goto(watcher.base + path)
        return watcher

    yield opened
    for watcher in watchers:
        watcher.context.close()
        assert watcher.logged == []
        assert watcher.foreign() == []


def made(store, name="checkout", arms=ARMS, policy=None, **options):
    policy = kibitz.ucb_double(2.0) if policy is None else policy
    return kibitz.agent(store, name, arms=arms, policy=policy, scale=0.5, seed=1, **options)


@contextlib.contextmanager
def token_for(store, role, agent=None):
    there = connect(store)
    yield tokens.create_token(there, role, agent)
    there.close()


def traffic(agent, n, rewards, looks=0):
    """Ask and tell n times, with the rewards by arm; look now and then."""
    for k in range(n):
        decision = agent.ask()
        agent.tell(decision.id, rewards[decision.arm] if k % 2 else 0.0)
        if looks and k % looks == 0:
            look = agent.look()
            agent.tell(look.id, rewards[look.arm] if k % 4 else 0.0)


def tile(page, label):
    return page.locator(".tile", has=page.locator("dt", has_text=re.compile(f"^{label}$")))


def expect(locator, text, seconds=20.0):
    from playwright.sync_api import expect as expected

    expected(locator).to_contain_text(text, timeout=1000 * seconds)


def widths(page):
    return page.evaluate("[document.documentElement.scrollWidth, innerWidth]")


# -------------------------------------------------------------------------------- following


def test_it_follows_a_tell_within_two_seconds(store, watch, serve):
    with made(store) as agent:
        port = serve(store)
        page = watch(port, "/#/checkout").page
        expect(page.locator(".empty:visible"), "Nobody has asked yet", FIRST)
        took = []
        for n in (1, 2, 3):
            decision = agent.ask(key=f"visit-{n}", among=["blue"])
            expect(tile(page, "Pending").locator(".value"), "1")
            agent.tell(decision.id, 1.0)
            told = time.monotonic()
            expect(tile(page, "Asks").locator(".note"), f"{n} told")
            took.append(time.monotonic() - told)
        assert min(took) < 2.0, took  # the best of three, as the machine may have other things to do
        expect(tile(page, "Pending").locator(".note"), "nothing is waited for")
        expect(page.locator(".events tbody tr").first, "told")
        expect(page.locator(".events"), "visit-3")
        row = page.locator(".arms tbody tr", has_text="blue")
        expect(row.locator(".share"), "100 %")
        expect(row.locator(".interval .number"), "1.0")
        assert not page.locator(".empty").is_visible()


def test_what_it_shows_is_what_the_report_says(store, watch, serve):
    with made(store) as agent:
        port = serve(store)
        traffic(agent, 300, {"blue": 0.2, "green": 1.0, "red": 0.0}, looks=5)
        report = agent.report()
        page = watch(port, "/#/checkout").page
        expect(page.locator("main"), "They saved about", 60)
        for name in ARMS:
            one = report.sel(arm=name)
            row = page.locator(".arms tbody tr", has_text=name)
            cells = row.locator("td.number").all_inner_texts()
            counts = [one.n_asked, one.n_pending, one.n_looks, one.n_forgotten]
            assert cells == [str(int(count)) for count in counts]
            said = row.locator(".interval .of").inner_text().split(" to ")
            assert [float(x.replace("−", "-")) for x in said] == pytest.approx(
                [float(one.low), float(one.high)], abs=6e-3
            )
        regret = [
            float(x) for x in tile(page, "Regret so far").locator(".value").inner_text().split("to")
        ]
        assert regret == pytest.approx([report.regret_low, report.regret_high], rel=6e-3)
        assert f"saved about {report.looks_saved:.3g} of regret" in tile(page, "Looks").inner_text()
        pulls = [event.arm for event in agent.events() if event.kind == "pull"]
        latest = pulls[
            len(pulls) - len(pulls) % 8 - (8 if len(pulls) % 8 == 0 else 0) :
        ]  # 8 a stretch
        for item in page.locator(".legend li").all():
            name, share = item.inner_text().split("\n")
            assert float(share.removesuffix(" %")) == pytest.approx(
                100 * latest.count(name) / len(latest), abs=0.5
            )


def test_it_survives_a_restart_of_the_server_and_says_so(store, browser):
    with made(store) as agent, Process(store) as server:
        pages = Watcher(browser, server.port), Watcher(browser, server.port)
        for watcher, path in zip(pages, ("/", "/#/checkout"), strict=True):
            watcher.page.goto(watcher.base + path)
            expect(watcher.page.locator("#line"), "Live", FIRST)
        page = watcher.page
        server.kill()
        for watcher in pages:
            expect(watcher.page.locator("#line"), "The server does not answer")
        decision = agent.ask()
        server.start()
        for watcher in pages:
            expect(watcher.page.locator("#line"), "Connected again at")
        expect(tile(page, "Asks").locator(".value"), "1", FIRST)
        agent.tell(decision.id, 1.0)
        expect(tile(page, "Asks").locator(".note"), "1 told")
        server.stop()
        expect(page.locator("#line"), "The server does not answer")
        for watcher in pages:
            watcher.context.close()
            # a browser writes down each connection that was refused; nothing else may be there
            assert all("ERR_" in text for text in watcher.logged), watcher.logged
            assert watcher.foreign() == []


def test_an_agent_that_is_not_there_gets_a_sentence(store, browser):
    with made(store), served(store) as port:
        watcher = Watcher(browser, port)
        watcher.page.goto(f"{watcher.base}/#/nobody")
        expect(watcher.page.locator("main"), "There is no such agent", FIRST)
        watcher.context.close()


# --------------------------------------------------------------------------------- changing


def test_an_arm_is_added_paused_and_resumed(store, watch, serve):
    with made(store) as agent:
        port = serve(store)
        page = watch(port, "/#/checkout").page
        page.get_by_label("Name of a new arm").fill("violet <b>")
        page.get_by_role("button", name="Add the arm").click()
        expect(page.locator(".said"), "violet <b> was added.")
        row = page.locator(".arms tbody tr", has_text="violet")
        row.get_by_role("button", name="Pause violet").click()
        expect(row.locator(".tag"), "paused")
        assert [arm.status for arm in agent.arms()] == ["active"] * 3 + ["paused"]
        row.get_by_role("button", name="Resume violet").click()
        expect(page.locator(".said"), "is pulled again")
        assert agent.arms()[3].status == "active"


def test_a_conflict_is_shown_in_words(store, browser):
    with made(store), served(store) as port:
        watcher = Watcher(browser, port)
        page = watcher.page
        page.goto(f"{watcher.base}/#/checkout")
        page.get_by_label("Name of a new arm").fill("blue")
        page.get_by_role("button", name="Add the arm").click()
        expect(page.locator(".said.bad"), "Not done: arm must be new, got 'blue'")
        assert page.get_by_label("Name of a new arm").input_value() == "blue"
        watcher.context.close()
        assert [text for text in watcher.logged if "Failed to load resource" not in text] == []


# ---------------------------------------------------------------------------- what is strange


def test_names_that_are_markup_stay_text(store, watch, serve):
    name = "<b>shop</b>/<script>alert(2)</script>"
    with made(store, name, NASTY) as agent:
        port = serve(store)
        traffic(agent, 40, dict.fromkeys(NASTY, 1.0), looks=4)
        page = watch(port).page
        page.get_by_role("link", name="shop").click()
        expect(page.locator("h1"), name, FIRST)
        assert page.title() == f"{name} · kibitz"
        for arm in NASTY:
            expect(page.locator(".arms"), arm)
            expect(page.locator(".legend"), arm)
        assert page.locator("main img, main script, main b").count() == 0
        for arm in NASTY:
            page.locator(".arms tbody tr", has_text=arm).get_by_role("button").click()
            expect(page.locator(".said"), f"{arm} is paused")
        assert {arm.status for arm in agent.arms()} == {"paused"}


def test_a_store_without_agents_says_how_to_make_one(store, watch, serve):
    connect(store).close()
    page = watch(serve(store)).page
    expect(page.locator(".empty"), "No agents yet", FIRST)
    with made(store):
        expect(page.locator(".agents"), "checkout", FIRST)
    assert not page.locator(".empty").is_visible()


def test_warnings_are_sentences(store, watch, serve):
    with made(store) as agent:
        port = serve(store)
        for _ in range(60):
            agent.ask()
        page = watch(port, "/#/checkout").page
        expect(page.locator(".warnings"), "was asked for", FIRST)
        assert page.locator(".warnings li").count() == len(agent.report().warnings)


def test_five_hundred_arms_stay_quick(store, watch, serve):
    arms = [f"arm {k}" for k in range(500)]
    with made(store, arms=arms) as agent:
        port = serve(store)
        agent.tell([(one.id, 1.0) for one in agent.ask(n=600)])
        page = watch(port, "/#/checkout").page
        expect(page.locator(".more"), "Show all 500", FIRST)
        assert page.locator(".arms tbody tr").count() == 20
        page.locator(".more").click()
        assert page.locator(".arms tbody tr").count() == 500
        took = []
        for n in (601, 602, 603):
            agent.tell(agent.ask().id, 0.0)
            told = time.monotonic()
            expect(tile(page, "Asks").locator(".value"), str(n))
            took.append(time.monotonic() - told)
        assert min(took) < 2.0, took
        page.get_by_label("Find").fill("arm 49")
        assert page.locator(".arms tbody tr").count() == 11
        page.get_by_label("Find").fill("nothing of the kind")
        expect(page.locator(".arms caption"), "No arm has such a name")


# -------------------------------------------------------------------------------- how it looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_on_a_phone(store, watch, scheme, serve):
    with made(store, arms=[*NASTY, "blue"]) as agent:
        port = serve(store)
        traffic(agent, 60, dict.fromkeys([*NASTY, "blue"], 1.0), looks=3)
        for _ in range(40):
            agent.ask()
        phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
        watcher = watch(port, **phone)
        expect(watcher.page.locator(".agents"), "checkout", FIRST)
        assert widths(watcher.page) == [390, 390]
        watcher.page.get_by_role("link", name="checkout").click()
        expect(watcher.page.locator(".arms"), "blue", FIRST)
        assert widths(watcher.page) == [390, 390]
        assert contrasts(watcher.page) == []
        assert (brightness(watcher.page) < 0.1) == (scheme == "dark")


CONTRAST = """() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((c) => {
      const x = c / 255;
      return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const colour = getComputedStyle(n).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const text = node instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(text), light(behind(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push([String(node.className), node.textContent]);
  }
  return poor;
}"""


def contrasts(page):
    """Return the texts whose contrast is below 4.5 : 1, the limit of WCAG."""
    return page.evaluate(CONTRAST)


def brightness(page):
    """Return how bright the background is, from 0 to 1."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765


def test_all_texts_of_all_states_have_contrast(store, watch, serve):
    connect(store).close()
    port = serve(store)
    for scheme in ("light", "dark"):
        page = watch(port, color_scheme=scheme).page
        expect(page.locator(".empty"), "No agents yet", FIRST)
        assert contrasts(page) == []
    with made(store, patience=1.0) as agent:
        traffic(agent, 40, dict.fromkeys(ARMS, 1.0), looks=4)
        agent.pause("blue")
        for _ in range(20):
            agent.ask()
        for scheme in ("light", "dark"):
            page = watch(port, "/#/checkout", color_scheme=scheme).page
            expect(page.locator(".arms"), "blue", FIRST)
            assert contrasts(page) == []


def test_it_is_used_without_a_mouse(store, watch, serve):
    with made(store) as agent:
        port = serve(store)
        traffic(agent, 100, {"blue": 0.2, "green": 1.0, "red": 0.0})
        page = watch(port).page
        expect(page.locator(".agents"), "checkout", FIRST)
        reached = []
        for _ in range(3):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent"))
            style = "getComputedStyle(document.activeElement)"
            assert page.evaluate(f"{style}.outlineStyle") == "solid"
        assert reached == ["To the content", "kibitz", "checkout"]
        page.keyboard.press("Enter")
        expect(page.locator("h1"), "checkout")
        chart = page.get_by_role("img", name="Shares of the pulls")
        chart.focus()
        caption = page.locator("figure p")
        expect(caption, "Latest: asks 97 to 100")
        page.keyboard.press("ArrowLeft")
        expect(caption, "Chosen: asks 89 to 96")
        page.keyboard.press("Home")
        expect(caption, "Chosen: asks 1 to 8")
        page.keyboard.press("Escape")
        expect(caption, "Latest: asks 97 to 100")
        button = page.get_by_role("button", name="Pause green")
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".arms tbody tr", has_text="green"), "paused")
        assert page.evaluate("document.activeElement.textContent") == "Resume"
        for role in ("table", "status", "main", "banner"):
            assert page.get_by_role(role).count() >= 1
        assert page.get_by_role("cell").count() >= 3 * 8


# ------------------------------------------------------------------------------------ who may


def test_login_logout_and_the_cookie(store, browser):
    with made(store), token_for(store, "admin") as token, served(store) as port:
        watcher = Watcher(browser, port)
        page = watcher.page
        page.goto(f"{watcher.base}/#/checkout")
        field, button = page.get_by_label("Token"), page.get_by_role("button", name="Log in")
        expect(page.locator("h1"), "Log in", FIRST)
        assert watcher.logged == []
        assert page.evaluate("document.activeElement.id") == "token"
        assert field.get_attribute("type") == "password"
        field.fill("1.wrong")
        button.click()
        expect(page.locator("[role=alert]"), "This token is not valid")
        field.fill(token)
        page.keyboard.press("Enter")
        expect(page.locator("h1"), "checkout")
        expect(page.locator(".arms"), "Pause")
        expect(page.locator(".empty code"), "Bearer <token>")
        (cookie,) = watcher.context.cookies()
        assert cookie["name"] == "kibitz_token"
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
        assert cookie["path"] == "/"
        seen = "document.cookie + JSON.stringify([localStorage, sessionStorage]) + location"
        secret = token.partition(".")[2]
        assert secret not in page.evaluate(seen)
        assert not [url for url in watcher.requests if secret in url]
        page.reload()
        expect(page.locator(".arms"), "Pause", FIRST)
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1"), "Log in")
        assert watcher.context.cookies() == []
        page.reload()
        expect(page.locator("h1"), "Log in", FIRST)
        watcher.context.close()
        assert [text for text in watcher.logged if "401" not in text] == []


@pytest.mark.parametrize("role", ["read", "play"])
def test_who_may_not_change_sees_no_buttons(store, watch, role, serve):
    with made(store), made(store, "other"), token_for(store, role, "checkout") as token:
        port = serve(store)
        page = watch(port).page
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.locator(".agents"), "checkout")
        assert page.locator(".agents tbody tr").count() == 1
        page.get_by_role("link", name="checkout").click()
        expect(page.locator(".arms"), "blue")
        assert page.get_by_role("button", name=re.compile("Pause|Resume|Add")).count() == 0


def test_a_token_that_is_revoked_ends_the_watching(store, browser):
    with made(store) as agent, token_for(store, "admin") as token, served(store) as port:
        watcher = Watcher(browser, port)
        page = watcher.page
        page.goto(f"{watcher.base}/#/checkout")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.locator(".arms"), "blue")
        with contextlib.closing(connect(store)) as other:
            tokens.revoke_token(other, 1)
        time.sleep(1.1)
        agent.ask()
        expect(page.locator("h1"), "Log in", FIRST)
        watcher.context.close()


def test_who_has_no_token_or_one_for_another_agent_watches_nothing(store):
    addresses = ("/v1/watch", "/v1/agents/checkout/watch")
    made(store).close()
    made(store, "other").close()
    with token_for(store, "admin", "other") as token, served(store) as port:
        for address in addresses:
            assert fetched(port, "GET", address)[0] == 401
            wrong = {"cookie": f"kibitz_token={token}x"}
            assert fetched(port, "GET", address, headers=wrong)[0] == 401
        right = {"cookie": f"kibitz_token={token}"}
        assert fetched(port, "GET", addresses[1], headers=right)[0] == 403
        status, _, body = fetched(port, "GET", addresses[0], headers=right)
        assert (status, [one["agent"] for one in json.loads(body)["agents"]]) == (200, ["other"])
        status, _, body = fetched(port, "GET", "/session")
        assert (status, json.loads(body)["role"]) == (200, None)


def set_cookie(headers):
    return [value.lower() for name, value in headers if name.lower() == "set-cookie"]


def test_the_cookie_is_secure_behind_tls(store):
    with made(store), token_for(store, "read") as token, served(store) as port:
        proxied = {"x-forwarded-proto": "https"}
        status, headers, body = fetched(port, "POST", "/login", {"token": token}, proxied)
        assert status == 200
        (cookie,) = set_cookie(headers)
        assert {"httponly", "samesite=strict", "secure"} <= set(cookie.split("; "))
        assert token not in body.decode()


def test_a_login_that_is_none_is_refused(store):
    bodies = [
        (None, 422), ({}, 422), ([], 422), ({"token": 1}, 422), ({"token": ""}, 422),
        ({"token": "a\r\nset-cookie: b=c"}, 422), ({"token": "x" * 2000}, 422),
        ({"token": "x" * 300_000}, 413), ({"token": "1.x"}, 401), ({"token": "ü" * 500}, 401),
        ({"token": "1.x", "role": "admin"}, 422),
    ]  # fmt: skip
    with made(store), token_for(store, "read"), served(store) as port:
        for body, expected in bodies:
            status, headers, _ = fetched(port, "POST", "/login", body)
            assert (status, set_cookie(headers)) == (expected, []), body
        kind = {"content-type": "text/plain", "origin": f"http://127.0.0.1:{port}"}
        assert fetched(port, "POST", "/login", {"token": "1.x"}, kind)[0] == 415


def test_another_site_can_neither_log_in_nor_out(store):
    with made(store), token_for(store, "read") as token, served(store) as port:
        foreign = {"origin": "http://elsewhere.example"}
        for path in ("/login", "/logout"):
            status, headers, _ = fetched(port, "POST", path, {"token": token}, foreign)
            assert (status, set_cookie(headers)) == (403, [])


# ------------------------------------------------------------------------------ what it allows


def test_the_page_allows_nothing_but_itself(store, browser):
    with made(store), served(store) as port:
        status, headers, body = fetched(port, "GET", "/")
        assert status == 200
        policy = dict(headers)["content-security-policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        text = body.decode()
        assert re.findall(r"https?://[^'\" ]*", text) == ["http://www.w3.org/2000/svg"] * 2
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
        assert not re.search(r"<(script|link|img|iframe)[^>]* src=", text)
        watcher = Watcher(browser, port)
        watcher.page.goto(watcher.base)
        expect(watcher.page.locator(".agents"), "checkout", FIRST)
        refused = watcher.page.evaluate(
            "() => { try { document.body.innerHTML = '<b>x</b>'; } catch { return 'refused'; } }"
        )
        assert refused == "refused"
        watcher.context.close()
