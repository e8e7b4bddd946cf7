"""Agents are created, described, listed and deleted over HTTP, and their history is imported."""

import asyncio
import contextlib
import io
import itertools
import json
import threading

import pytest

import kibitz
from kibitz.live.agent.history import read_history
from kibitz.live.service import auth, schemas
from kibitz.live.store import connect, queries

pytestmark = pytest.mark.slow

PATH = "/v1/agents/banner"
NEW_AGENT = {"name": "banner", "arms": ["old", "new"], "rewards": "bernoulli", "seed": 1}


@pytest.fixture
def service_of(url, service):
    """Return the service of a store with the agent checkout, on SQLite and PostgreSQL."""
    kibitz.agent(url, "checkout", arms=["blue", "green"], rewards="bernoulli").close()
    return service(url)


def create(service, **arguments):
    answer = service.send("POST", "/v1/agents", {**NEW_AGENT, **arguments})
    assert answer[0] == 201, answer
    return answer[2]


def get_message(answer, status):
    assert answer[0] == status, answer
    return answer[2]["error"]["message"]


def test_a_created_agent_is_the_agent_that_python_creates(service_of, url):
    body = {
        "name": "euro", "arms": ["old", "new"], "rewards": "gaussian", "scale": 2.5, "seed": 7,
        "patience": 60, "silence": 0, "policy": {"name": "ucb", "parameters": {"exploration": 2}},
    }  # fmt: skip
    status, _, description = service_of.send("POST", "/v1/agents", body)
    assert status == 201
    assert description == {
        "name": "euro",
        "arms": [{"arm": "old", "state": "active"}, {"arm": "new", "state": "active"}],
        "rewards": "gaussian",
        "policy": {"name": "ucb", "parameters": {"exploration": 2.0, "ignore_looks": False}},
        "scale": 2.5,
        "patience": 60.0,
        "silence": 0.0,
        "bucket": 0.0,
        "bucket_is_free": False,
        "shows": None,
        "alarms": None,
    }
    assert service_of.send("GET", "/v1/agents/euro/config")[2] == description
    arguments = {**body, "policy": kibitz.ucb(2.0)}
    with kibitz.agent(url, arguments.pop("name"), **arguments) as agent:  # the arguments agree
        assert agent.config.data["seed"] == 7
        assert service_of.send("POST", "/v1/agents/euro/ask")[2]["arm"] == "old"
        agent.pause("old")
        assert agent.check() == []
    arms = service_of.send("GET", "/v1/agents/euro/config")[2]["arms"]
    assert [arm["state"] for arm in arms] == ["paused", "active"]


def test_a_repeated_creation_changes_nothing_and_a_different_one_is_a_conflict(service_of):
    first = create(service_of)
    service_of.send("POST", f"{PATH}/ask")
    assert create(service_of) == first
    assert service_of.send("POST", f"{PATH}/ask")[2]["id"] == 2
    for change in ({"arms": ["old", "newer"]}, {"patience": 5}, {"rewards": "bounded"}):
        answer = service_of.send("POST", "/v1/agents", {**NEW_AGENT, **change})
        assert "was created with" in get_message(answer, 409)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"arms": ["old"]}, "arms must be a list of at least 2 names"),
        ({"arms": ["old", "old"]}, "arms must be different names"),
        ({"arms": "old"}, "arms must be a list of names of arms"),
        ({"name": ""}, "name must be a text of 1 to 500 printable characters"),
        ({"rewards": None}, "rewards is required to create an agent"),
        ({"rewards": "clicks"}, "rewards must be 'gaussian', 'bernoulli' or 'bounded'"),
        ({"rewards": "gaussian"}, "scale is required for gaussian rewards"),
        ({"scale": 0.5}, "bernoulli rewards take no scale"),
        ({"patience": -1}, "patience must be positive and finite"),
        ({"silence": 0}, "patience is required when silence is a reward"),
        ({"silence": "wait"}, "silence must be 'forget' or a finite number"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"color": 1}, "body has the unknown field 'color'"),
        ({"policy": "ucb"}, "policy must be a JSON object"),
        ({"policy": {"name": "os"}}, "policy must be 'ftl'"),
        ({"policy": {"name": "moss"}}, "an agent needs moss with a horizon"),
        ({"policy": {"name": "ucb", "parameters": {"x": 1}}}, "policy 'ucb' is invalid"),
        ({"policy": {"name": "ucb", "parameters": {"exploration": "x"}}}, "exploration must be"),
        ({"policy": {"name": "ucb", "parameters": {"exploration": [1]}}}, "parameters must be"),
        (
            {"policy": {"name": "ucb", "function": "f", "module": "os"}},
            "policy has the unknown field 'function'; use name, parameters",
        ),
        ({"policy": {}}, "policy.name must be a text of 1 to 500 printable characters"),
        ({"bucket_is_free": 1}, "bucket_is_free must be true or false, got 1"),
        ({"shows": 1}, "shows must be a list with a list of probabilities for each arm"),
        ({"shows": [[1, 2], [0, 1]]}, "shows must be probabilities in [0, 1], got 2"),
    ],
)
def test_an_invalid_agent_is_rejected_and_not_created(memory, service, change, sentence):
    store = str(memory / "shop.db")
    kibitz.agent(store, "checkout", arms=["blue", "green"], rewards="bernoulli").close()
    running = service(store)
    answer = running.send("POST", "/v1/agents", {**NEW_AGENT, **change})
    assert sentence in get_message(answer, 422)
    assert running.send("GET", "/v1/agents")[2] == {"agents": ["checkout"], "more": False}


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("", {}, "name must be a text of 1 to 500 printable characters, got None"),
        ("", {"name": "banner"}, "arms must be a list of names of arms, got None"),
        ("/checkout/erase", {}, "key must be a text of 1 to 500 printable characters, got None"),
        ("/checkout/erase", {"key": []}, "key must be a list of 1 to 1000 keys, got []"),
        ("/checkout/compact", {}, "before must be a date such as 2026-01-31, got None"),
    ],
)
def test_a_missing_or_empty_field_is_named(service_of, path, body, sentence):
    answer = service_of.send("POST", f"/v1/agents{path}", body)
    assert get_message(answer, 422) == sentence


def test_agents_are_listed_in_pages(service_of):
    names = sorted(["checkout", *(f"agent-{n}" for n in range(7))])
    for name in names:
        if name != "checkout":
            create(service_of, name=name)
    listed, after, has_more = [], "", True
    while has_more:
        answer = service_of.send("GET", f"/v1/agents?limit=3&after={after}")[2]
        assert len(answer["agents"]) <= 3
        listed += answer["agents"]
        after, has_more = listed[-1], answer["more"]
    assert listed == names
    assert service_of.send("GET", "/v1/agents")[2] == {"agents": names, "more": False}
    for limit in (0, 1001, "x"):
        get_message(service_of.send("GET", f"/v1/agents?limit={limit}"), 422)
    token = auth.create_token(service_of.app.state.store, "read", "agent-5")
    service_of.app.state.tokens._read_at = -10.0
    answer = service_of.send("GET", "/v1/agents?limit=1", token=token)[2]
    assert answer == {"agents": ["agent-5"], "more": False}


def test_agents_and_tokens_are_created_at_the_same_time(url):
    """Several programs that start together may create the same agents at the same time."""
    connect(url).close()
    barrier, errors = threading.Barrier(8), []

    def create_both(index):
        try:
            for n_round in range(4):
                barrier.wait()
                for name in (f"agent-{n_round}-{index}", f"shared-{n_round}"):
                    kibitz.agent(url, name, arms=["old", "new"], rewards="bernoulli", seed=1).close()
                store = connect(url)
                auth.create_token(store, "read")
                store.close()
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=create_both, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store = connect(url)
    assert len(store.read(queries.read_names)) == 36
    assert sorted(token.number for token in auth.list_tokens(store)) == list(range(1, 33))
    store.close()


def test_only_an_admin_of_all_agents_creates_agents(service_of):
    store = service_of.app.state.store
    tokens = {
        role: auth.create_token(store, role, name)
        for role, name in (("play", None), ("admin", "checkout"))
    }
    admin = auth.create_token(store, "admin")
    assert get_message(service_of.send("POST", "/v1/agents", NEW_AGENT, tokens["play"]), 403)
    answer = service_of.send("POST", "/v1/agents", NEW_AGENT, tokens["admin"])
    assert "admin token for all agents" in get_message(answer, 403)
    assert get_message(service_of.send("DELETE", "/v1/agents/checkout", token=tokens["play"]), 403)
    assert service_of.send("POST", "/v1/agents", NEW_AGENT, admin)[0] == 201
    assert get_message(service_of.send("DELETE", PATH, token=tokens["admin"]), 403)


def test_a_deleted_agent_leaves_no_rows_and_its_tokens_are_revoked(service_of, url):
    create(service_of)
    store = service_of.app.state.store
    service_of.send("POST", f"{PATH}/ask", {"key": "visitor-1"})
    service_of.send("POST", f"{PATH}/tell", {"key": "visitor-1", "reward": 1})
    bound, other = (auth.create_token(store, "play", name) for name in ("banner", "checkout"))
    admin = auth.create_token(store, "admin")
    service_of.app.state.tokens._read_at = -10.0
    assert service_of.send("DELETE", PATH, token=admin)[2] == {"result": "deleted"}
    get_message(service_of.send("DELETE", PATH, token=admin), 404)
    get_message(service_of.send("POST", f"{PATH}/ask", token=admin), 404)
    service_of.app.state.tokens._read_at = -10.0
    assert service_of.send("POST", f"{PATH}/ask", token=bound)[0] == 401
    assert service_of.send("POST", "/v1/agents/checkout/ask", token=other)[0] == 200
    tables = store.read(
        lambda database: {
            table: database.execute(f"select count(*) from {table}")[0][0]
            for table in ("agents", "arms", "decisions", "events")
        }
    )
    assert tables == {"agents": 1, "arms": 2, "decisions": 1, "events": 3}
    with kibitz.agent(url, "checkout") as agent:
        assert agent.check() == []


def test_an_agent_that_another_process_created_again_is_opened_again(service_of, service, url):
    """The old and the new agent have equal arguments and numbers of events, but other rewards."""
    other = service(url)
    for reward in (1, 0):
        create(service_of)
        for key in ("a", "b"):
            service_of.send("POST", f"{PATH}/ask", {"key": key})
            service_of.send("POST", f"{PATH}/tell", {"key": key, "reward": reward})
        for path in (PATH, f"{PATH}/config", f"{PATH}/verdict"):
            assert other.send("GET", path)[0] == 200
        assert other.send("POST", f"{PATH}/ask", {"key": "c"})[2]["id"] == 3
        arms = other.send("GET", PATH)[2]["arms"]
        assert [arm["mean"] for arm in arms] == [reward, reward]
        with kibitz.agent(url, "banner") as agent:
            assert agent.check() == []
            assert service_of.send("DELETE", PATH)[0] == 200
            with pytest.raises(kibitz.UnknownAgent, match="agent 'banner' does not exist"):
                agent.ask()
            if reward == 1:
                create(service_of)
                with pytest.raises(kibitz.UnknownAgent, match="was deleted and created again"):
                    agent.ask()
                with pytest.raises(kibitz.UnknownAgent, match="was deleted and created again"):
                    agent.report()
                service_of.send("DELETE", PATH)


def test_a_stream_of_a_deleted_agent_ends(memory, serve_store):
    import http.client

    store = str(memory / "shop.db")
    kibitz.agent(store, "banner", arms=["old", "new"], rewards="bernoulli").close()
    with serve_store(store) as address:
        host = address.removeprefix("http://")
        stream = http.client.HTTPConnection(host, timeout=20)
        stream.request("GET", f"{PATH}/events", headers={"Accept": "text/event-stream"})
        response = stream.getresponse()
        assert b"retry" in response.readline()
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("DELETE", PATH)
        assert connection.getresponse().read() == b'{"result":"deleted"}'
        response.read()  # returns, because the stream ends
        assert response.isclosed()
        stream.close()
        connection.close()


def test_a_new_agent_with_the_name_of_a_deleted_agent_gets_its_own_reports(service_of, service, url):
    """The new agent has as many events as the old agent and is created within a second."""
    other = service(url)
    for arms in (["old", "new"], ["red", "blue"]):
        create(service_of, arms=arms)
        for answering in (service_of, other):
            report = answering.send("GET", PATH)[2]
            assert [arm["arm"] for arm in report["arms"]] == arms
            assert answering.send("GET", f"{PATH}/verdict")[0] == 200
            assert arms[0] in answering.send("GET", f"{PATH}/export?format=csv")[2].decode()
        assert service_of.send("DELETE", PATH)[0] == 200


def test_a_stream_never_continues_with_another_agent_of_the_same_name(memory, serve_store):
    """Another process deletes the agent and creates a new agent that soon has a longer log."""
    import http.client

    path = str(memory / "shop.db")
    kibitz.agent(path, "banner", arms=["old", "new"], rewards="bernoulli").close()
    with serve_store(path) as address, contextlib.ExitStack() as stack:
        host = address.removeprefix("http://")

        def open_stream(name):
            connection = http.client.HTTPConnection(host, timeout=20)
            stack.callback(connection.close)
            connection.request("GET", f"{PATH}/{name}", headers={"Accept": "text/event-stream"})
            return stack.enter_context(connection.getresponse())

        streams = [open_stream("events"), open_stream("watch")]
        for stream in streams:
            while b"data" not in (line := stream.readline()):
                pass
            assert b"old" in line
        store = connect(path)
        store.write(lambda database: queries.delete_agent(database, "banner", 0.0))
        store.close()
        with kibitz.agent(path, "banner", arms=["red", "blue"], rewards="bernoulli") as agent:
            agent.ask(n=10)
        lines = list(itertools.takewhile(lambda line: b"red" not in line, streams[0]))
        assert b"new" in b"".join(lines)
        assert streams[0].isclosed()  # it ended before an event of the other agent
        for name in ("events", "watch"):
            stream = open_stream(name)
            while b"data" not in (line := stream.readline()):
                pass
            assert b"red" in line


# -------------------------------------------------------------------------------------- import

CSV = "arm,reward,key\nblue,1,visitor-1\ngreen,0,visitor-2\nblue,1.0,visitor-3\n"
EXCEL = b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode()
LINES = "\n".join(
    json.dumps({"arm": arm, "reward": reward, "key": key})
    for arm, reward, key in (("blue", 1, "visitor-1"), ("green", 0.0, "visitor-4"))
)


def send_history(service, content, media_type, **headers):
    path = "/v1/agents/checkout/import"
    content = content if isinstance(content, bytes) else content.encode()
    return service.send("POST", path, content, content_type=media_type, **headers)


def test_a_history_is_imported_once_from_csv_and_json_lines(service_of, url):
    for content, media_type, result in (
        (CSV, "text/csv", {"counted": 3, "duplicates": 0}),
        (CSV, "text/csv; charset=utf-8", {"counted": 0, "duplicates": 3}),
        (LINES, "application/x-ndjson", {"counted": 1, "duplicates": 1}),
        (EXCEL, "text/csv", {"counted": 0, "duplicates": 3}),
        ("arm,reward,key\n", "text/csv", {"counted": 0, "duplicates": 0}),
    ):  # fmt: skip
        assert send_history(service_of, content, media_type)[::2] == (200, result)
    with kibitz.agent(url, "checkout") as agent:
        assert [(arm.n_looks, arm.look_sum) for arm in agent.arms()] == [(2, 2.0), (2, 0.0)]
        assert agent.check() == []


def test_the_examples_of_openapi_can_be_imported(service_of):
    paths = service_of.send("GET", "/openapi.json")[2]["paths"]
    description = paths["/v1/agents/{name}/import"]["post"]
    contents = description["requestBody"]["content"]
    assert set(contents) == {"text/csv", "application/x-ndjson"}
    answers = [
        send_history(service_of, content["example"], media_type)
        for media_type, content in contents.items()
    ]
    assert [answer[2] for answer in answers] == [
        description["responses"]["200"]["content"]["application/json"]["example"],
        {"counted": 1, "duplicates": 0},
    ]
    delete = paths["/v1/agents/{name}"]["delete"]["responses"]["200"]["content"]
    answer = service_of.send("DELETE", "/v1/agents/checkout")
    assert answer[2] == delete["application/json"]["example"]


def test_a_long_history_leaves_room_for_other_requests(service_of, url):
    rows = [f"{('blue', 'green')[n % 2]},{n % 2},visitor-{n}" for n in range(5_000)]
    content = "\n".join(["arm,reward,key", *rows])

    async def send_all():
        path, asks = "/v1/agents/checkout", []
        import_task = asyncio.ensure_future(
            service_of.call("POST", f"{path}/import", content.encode(), content_type="text/csv")
        )
        while not import_task.done():
            asks.append(await service_of.call("POST", f"{path}/ask"))
        return await import_task, asks

    answer, asks = service_of.loop.run_until_complete(send_all())
    assert answer[2] == {"counted": 5_000, "duplicates": 0}
    assert len(asks) >= 3
    with kibitz.agent(url, "checkout") as agent:
        assert sum(arm.n_looks for arm in agent.arms()) == 5_000
        assert agent.check() == []


@pytest.mark.parametrize(
    ("content", "file_format", "sentence"),
    [
        ("", "csv", "the first line must name the columns arm,reward,key, got ''"),
        ("arm,reward\nblue,1", "csv", "the first line must name the columns"),
        ("arm,reward,key,at\nblue,1,a,2", "csv", "the first line must name the columns"),
        ("arm,reward,key\nblue,1", "csv", "line 2 must have the fields arm, reward, key"),
        ("arm,reward,key\nblue,1,a,b", "csv", "line 2 must have the fields arm, reward, key"),
        ("arm,reward,key\nblue,x,a", "csv", "line 2: reward must be a number, got 'x'"),
        ("arm,reward,key\nblue,1,", "csv", "line 2: arm and key must be texts"),
        ('arm,reward,key\n"blue,1,a', "csv", "line 2 is not valid CSV"),
        ("arm,reward,key\nblue,1,a\nblue,1,a", "csv", "lines 2 and 3 have the same key"),
        ('{"arm": "blue"', "jsonl", "line 1 is not valid JSON"),
        ('{"arm": "blue", "reward": 1}', "jsonl", "line 1 must have the fields arm, reward, key"),
        ('\n[1]', "jsonl", "line 2 must have the fields arm, reward, key"),
        ('{"arm": "blue", "reward": true, "key": "a"}', "jsonl", "line 1: reward must be a number"),
        ('{"arm": "blue", "reward": 1, "key": null}', "jsonl", "line 1 must have the fields"),
        ('{"arm": "blue", "reward": 1, "key": 7}', "jsonl", "line 1: arm and key must be texts"),
        ("[" * 100_000, "jsonl", "line 1 is not valid JSON"),
    ],
)  # fmt: skip
def test_an_invalid_history_names_the_line(content, file_format, sentence):
    with pytest.raises(ValueError) as error:
        list(read_history(io.StringIO(content), file_format))
    assert sentence in str(error.value)


def test_an_invalid_import_is_rejected(service_of, url):
    for content, media_type, status, sentence in (
        (CSV, "application/json", 415, "content-type must be text/csv or application/x-ndjson"),
        (CSV, None, 415, "content-type must be text/csv"),
        (b"\xff", "text/csv", 422, "body must be UTF-8"),
        (b"x" * (8 * 1024 * 1024 + 1), "text/csv", 413, "body is larger than 8388608 bytes"),
        (CSV.replace("blue", "pink"), "text/csv", 422, "line 2: arm must be one of 'blue', 'green'"),
        (CSV.replace(",1,", ",nan,"), "text/csv", 422, "line 2: reward must be a finite number"),
        (CSV.replace(",1,", ",2,"), "text/csv", 422, "line 2: reward must be 0 or 1"),
    ):
        assert sentence in get_message(send_history(service_of, content, media_type), status)
    assert send_history(service_of, CSV, "text/csv")[0] == 200
    answer = send_history(service_of, CSV.replace("1.0", "0"), "text/csv")
    assert "line 4: key 'visitor-3' was already used" in get_message(answer, 409)
    with kibitz.agent(url, "checkout") as agent:
        assert sum(arm.n_looks for arm in agent.arms()) == 3


def test_the_fields_of_a_new_agent_are_the_arguments_of_the_library():
    """The fields of a new agent are the arguments of `kibitz.agent`, without the store."""
    import inspect

    arguments = set(inspect.signature(kibitz.agent).parameters) - {"url"}
    assert arguments == set(schemas.NewAgent.__struct_fields__)


def test_an_agent_with_a_monitor_a_bucket_and_lookout_is_played_over_http(service_of, url):
    """The first agent has a mean that falls after half of the visits; the second loses reports."""
    create(
        service_of, patience=10, silence=0, alarms=0.1, bucket=0.4,
        policy={"name": "lookout", "parameters": {"rewards": "bernoulli"}},
    )  # fmt: skip
    create(service_of, name="lossy", arms=["a", "b", "c"], bucket=1, patience=10)
    agents = [service_of.app.state.open_agent(name) for name in ("banner", "lossy")]
    for second in range(120):
        for agent in agents:
            agent.now = lambda second=second: 2e9 + second
        visits = service_of.send("POST", f"{PATH}/ask", {"n": 5})[2]
        rate = {"old": 0.9 if second < 60 else 0.05, "new": 0.5}
        clicks = [{"id": v["id"], "reward": int(v["id"] % 20 < 20 * rate[v["arm"]])} for v in visits]
        assert service_of.send("POST", f"{PATH}/tell", clicks)[0] == 200
        visits = service_of.send("POST", "/v1/agents/lossy/ask", {"n": 5})[2]
        told = [{"id": v["id"], "reward": 1} for v in visits if v["arm"] != "c" or v["id"] % 4 == 0]
        service_of.send("POST", "/v1/agents/lossy/tell", told)
    report = service_of.send("GET", PATH)[2]
    [alarm] = report["alarms"]
    assert alarm["arm"] == "old"
    assert 2e9 + 55 <= alarm["since_at"] < alarm["at"] <= 2e9 + 75
    assert report["arms"][0]["since"] == alarm["since_at"]
    assert service_of.send("GET", f"{PATH}/verdict")[2]["out"] == ["old"]
    warnings = service_of.send("GET", "/v1/agents/lossy")[2]["warnings"]
    assert any(warning.startswith("sample-ratio mismatch") for warning in warnings)
    metrics = service_of.send("GET", "/metrics")[2].decode()
    assert 'kibitz_alarms_total{agent="banner"} 1.0' in metrics
    assert 'kibitz_alarms_total{agent="lossy"} 0.0' in metrics
    events = service_of.send("GET", f"{PATH}/events?limit=5000")[2]["events"]
    probabilities = {event["probability"] for event in events if event["kind"] == "pull"}
    assert probabilities == {0.2, 0.8}
    assert {event["bucket"] for event in events} == {None, "0 1"}
    with kibitz.agent(url, "banner") as agent:
        assert agent.check() == []
        assert kibitz.evaluate(agent, kibitz.lookout(rewards="bernoulli"), seed=1).n_visits > 150
