"""The contract of an agent is the same in Python, over HTTP and through the client."""

import asyncio
import itertools
import json
import math
import threading

import numpy as np
import pytest

import kibitz

pytestmark = pytest.mark.slow

ARMS = ["blue", "green", "red"]
NAMES = itertools.count()


class HttpAgent:
    """An agent whose methods send HTTP requests."""

    def __init__(self, service, name):
        self.service, self.path = service, f"/v1/agents/{name}"

    def send(self, method, path, body=None, **headers):
        status, _, content = self.service.send(method, f"{self.path}{path}", body, **headers)
        if status < 300:
            return content
        assert set(content) == {"error"}
        assert set(content["error"]) == {"code", "message"}
        error_types = {409: kibitz.Conflict, 413: ValueError, 422: ValueError}
        message = content["error"]["message"]
        if status == 404:
            raise (kibitz.UnknownDecision if message.startswith("decision ") else ValueError)(message)
        raise error_types[status](message)

    def post(self, verb, **body):
        return self.send("POST", f"/{verb}", {k: v for k, v in body.items() if v is not None})

    def ask(self, key=None, among=None, n=None):
        answer = self.post("ask", key=key, among=among, n=n)
        if n is None:
            return kibitz.Decision(**answer)
        return [kibitz.Decision(**decision) for decision in answer]

    def look(self, key=None):
        headers = {} if key is None else {"idempotency_key": key}
        return kibitz.Decision(**self.send("POST", "/look", **headers))

    def tell(self, id=None, reward=None, key=None):
        if isinstance(id, list):
            reports = [
                {"id": decision_id, "reward": reported_reward} for decision_id, reported_reward in id
            ]
            return [answer["result"] for answer in self.send("POST", "/tell", reports)]
        return self.post("tell", id=id, key=key, reward=reward)["result"]

    def observe(self, arm, reward=None, key=None):
        if isinstance(arm, list):
            rows = [dict(zip(("arm", "reward", "key"), row, strict=True)) for row in arm]
            return [answer["result"] for answer in self.send("POST", "/observe", rows)]
        return self.post("observe", arm=arm, reward=reward, key=key)["result"]

    def erase(self, key):
        return self.post("erase", key=key)["results"]

    def compact(self, before):
        return self.post("compact", before=before)["n_events"]

    def forget(self, id):
        return self.post("forget", id=id)["result"]

    def correct(self, id, reward):
        return self.post("correct", id=id, reward=reward)["result"]

    def add(self, arm):
        assert self.post("arms", arm=arm) == {"arm": arm, "state": "active"}

    def set_state(self, arm, state):
        sent = {"state": state}
        assert self.send("PATCH", f"/arms/{arm}", sent) == {"arm": arm, "state": state}

    def pause(self, arm):
        self.set_state(arm, "paused")

    def resume(self, arm):
        self.set_state(arm, "active")

    def retire(self, arm):
        self.set_state(arm, "retired")

    def declare_rewards(self, rewards):
        return self.post("rewards", rewards=rewards)["result"]

    def events(self, after=0):
        has_more = True
        while has_more:
            page = self.send("GET", f"/events?after={after}&limit=3")
            yield from (tuple(event.values()) for event in page["events"])
            after, has_more = page["last"], page["more"]

    def report(self):
        from kibitz.live.agent.report import from_plain

        return from_plain(self.send("GET", ""))

    def verdict(self, delta, tolerance):
        from kibitz.live.agent.report import verdict_from_plain

        query = f"/verdict?delta={delta}&tolerance={tolerance}"
        return verdict_from_plain(self.send("GET", query))

    def export(self, file):
        content = self.send("GET", f"/export?format={file.suffix[1:]}")
        file.write_bytes(content)


class AsyncAgent:
    """An agent that runs the methods of an `AsyncClient` in the event loop of another thread."""

    def __init__(self, address, name):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.client = kibitz.AsyncClient(address, agent=name)

    def __getattr__(self, name):
        def run(*arguments, **options):
            return self.run(getattr(self.client, name)(*arguments, **options))

        return run

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def events(self, after=0):
        async def read():
            return [event async for event in self.client.events(after)]

        return self.run(read())

    def close(self):
        self.run(self.client.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(params=["agent", "client", "async client", "service"])
def create_agent(request, store_and_address, service_without_network):
    """Return a function that creates an agent and returns a pair (interface, agent)."""
    url, address = store_and_address
    interfaces = []

    def make(**arguments):
        name = f"agent-{next(NAMES)}"
        setting = {
            "arms": ARMS,
            "policy": kibitz.ucb(2.0),
            "rewards": "gaussian",
            "scale": 0.5,
            "seed": 1,
            **arguments,
        }
        agent = kibitz.agent(url, name, **setting)
        interfaces.append(agent)
        if request.param == "agent":
            return agent, agent
        if request.param == "client":
            interfaces.append(kibitz.Client(address, agent=name))
            return interfaces[-1], agent
        if request.param == "async client":
            interfaces.append(AsyncAgent(address, name))
            return interfaces[-1], agent
        return HttpAgent(service_without_network, name), agent

    make.kind = request.param
    yield make
    for interface in interfaces:
        interface.close()


def get_counts(agent, *names):
    return [tuple(getattr(arm, name) for name in names) for arm in agent.arms()]


def test_declared_rewards_are_an_event_and_limit_later_rewards(create_agent):
    interface, agent = create_agent()
    id = interface.ask().id
    interface.tell(id, 0.5)
    with pytest.raises(ValueError, match=r"are not bernoulli: decision 1 has reward 0\.5"):
        interface.declare_rewards("bernoulli")
    with pytest.raises(ValueError, match="rewards"):
        interface.declare_rewards("gaussian")
    interface.correct(id, 1.0)
    assert interface.declare_rewards("bernoulli") == "declared"
    assert interface.declare_rewards("bernoulli") == "duplicate"
    with pytest.raises(ValueError, match="reward must be 0 or 1 for an agent with bernoulli rewards"):
        interface.tell(interface.ask().id, 0.5)
    assert interface.report().attrs["rewards"] == "bernoulli"
    assert tuple(list(interface.events())[-2])[2:] == ("declared_bernoulli", *[None] * 7)
    assert agent.check() == []


def test_keys_are_erased_and_decisions_have_probabilities(create_agent):
    interface, agent = create_agent(bucket=0.5)
    decision = interface.ask(key="visitor-1")
    assert decision.probability == 0.5 / 3 + 0.5 * (decision.arm == "blue")
    assert list(interface.events())[-1][7] == decision.probability
    interface.tell(decision.id, 1.0)
    arms = agent.arms()
    assert interface.erase("visitor-1") == ["erased"]
    assert interface.erase(["visitor-1", "visitor-2"]) == ["unknown", "unknown"]
    with pytest.raises(ValueError, match="key"):
        interface.erase([])
    assert agent.arms() == arms
    assert agent.check() == []
    assert "visitor-1" not in {event[6] for event in interface.events()}


def test_a_log_is_compacted(create_agent):
    interface, agent = create_agent()
    for n in range(3):
        interface.tell(interface.ask().id, float(n % 2))
    arms = agent.arms()
    with pytest.raises(ValueError, match="before must be a date such as 2026-01-31, got 'yesterday'"):
        interface.compact("yesterday")
    assert interface.compact("2020-01-31") == interface.compact(1e9) == 0
    assert interface.compact("2200-01-31") == 9
    assert agent.arms() == arms
    assert agent.check() == []
    kinds = [event[2] for event in interface.events()]
    assert kinds == ["added"] * 3 + ["checkpoint", "compacted"]
    interface.tell(interface.ask().id, 1.0)


def test_settled_counts_are_reported(create_agent):
    interface, agent = create_agent(patience=100.0, silence=0.0, rewards="bernoulli", scale=None)
    for visit in interface.ask(n=4)[:2]:
        interface.tell(visit.id, 1.0)
    report = interface.report()
    assert report["n_settled"].sum() == 0
    assert report["n_unsettled"].sum() == 4
    assert report["mean"].isnull().all()
    agent.now = lambda: 4e9
    assert agent.report()["n_settled"].sum() == 4


def test_a_decision_has_an_id_a_kind_an_arm_a_key_and_a_time(create_agent):
    interface, agent = create_agent()
    decision = interface.ask(key="visit-1")
    assert decision[:4] == (1, "pull", "blue", "visit-1")
    assert interface.look(key="probe")[:4] == (2, "look", "green", "probe")
    assert isinstance(decision, kibitz.Decision)
    assert next(event.at for event in agent.events(3)) == decision.asked_at
    assert interface.ask().id == 3


def test_a_report_counts_once_and_a_different_value_is_a_conflict(create_agent):
    interface, agent = create_agent()
    id = interface.ask().id
    assert interface.tell(id, 1.0) == "counted"
    assert interface.tell(id, 1) == "duplicate"
    with pytest.raises(kibitz.Conflict, match=r"decision 1 was already told reward 1\.0"):
        interface.tell(id, 0.0)
    with pytest.raises(kibitz.UnknownDecision, match=r"decision 2 of agent .* does not exist"):
        interface.tell(2, 1.0)
    assert get_counts(agent, "n_pulls", "pull_sum") == [(1, 1.0), (0, 0.0), (0, 0.0)]
    assert agent.check() == []


def test_a_reward_is_told_by_the_key_of_its_decision(create_agent):
    interface, agent = create_agent()
    interface.ask(key="visitor-1"), interface.look(key="visitor-2"), interface.ask(key="visitor-3")
    assert interface.tell(key="visitor-3", reward=1.0) == "counted"
    assert interface.tell(key="visitor-3", reward=1.0) == "duplicate"
    assert interface.tell(3, 1.0) == "duplicate"
    assert interface.tell(key="visitor-2", reward=0.5) == "counted"
    with pytest.raises(kibitz.Conflict, match=r"decision 3 was already told reward 1\.0"):
        interface.tell(key="visitor-3", reward=0.0)
    sentence = "decision with key 'visitor-4' of agent .* does not exist"
    with pytest.raises(kibitz.UnknownDecision, match=sentence):
        interface.tell(key="visitor-4", reward=1.0)
    for arguments in ({"reward": 1.0}, {"id": 1, "key": "visitor-1", "reward": 1.0}):
        with pytest.raises(ValueError, match="either id or key is required to name a decision"):
            interface.tell(**arguments)
    told = [(event.id, event.reward) for event in agent.events() if event.kind == "told"]
    assert told == [(3, 1.0), (2, 0.5)]
    assert agent.check() == []


def test_a_list_of_observations_is_counted_completely_or_not_at_all(create_agent):
    interface, agent = create_agent()
    history = [(ARMS[n % 3], n / 10, f"visitor-{n}") for n in range(9)]
    assert interface.observe(history[:5]) == ["counted"] * 5
    assert interface.observe(history) == ["duplicate"] * 5 + ["counted"] * 4
    with pytest.raises(kibitz.Conflict, match="key 'visitor-0' was already used"):
        interface.observe([("blue", 0.5, "visitor-9"), ("blue", 0.9, "visitor-0")])
    with pytest.raises(ValueError, match="arm must be one of"):
        interface.observe([("blue", 0.5, "visitor-9"), ("pink", 0.5, "visitor-10")])
    assert interface.observe([]) == []
    assert get_counts(agent, "n_looks") == [(3,), (3,), (3,)]
    assert agent.check() == []


def test_a_key_repeats_its_decision_and_belongs_to_one_kind(create_agent):
    interface, agent = create_agent()
    pull, look = interface.ask(key="a"), interface.look(key="b")
    assert interface.observe("red", 0.5, key="c") == "counted"
    assert interface.ask(key="a") == pull
    assert interface.look(key="b") == look
    assert interface.observe("red", 0.5, key="c") == "duplicate"
    with pytest.raises(
        kibitz.Conflict, match=r"key 'a' belongs to decision 1 of kind 'pull' and .* for 'look'"
    ):
        interface.look(key="a")
    with pytest.raises(
        kibitz.Conflict, match=r"key 'c' belongs to decision 3 of kind 'observe' and .* for 'pull'"
    ):
        interface.ask(key="c")
    with pytest.raises(
        kibitz.Conflict, match=r"key 'c' was already used to report reward 0\.5 of arm 'red'"
    ):
        interface.observe("red", 0.25, key="c")
    assert len(list(agent.events())) == 6


def test_a_list_of_reports_is_counted_completely_or_not_at_all(create_agent):
    interface, agent = create_agent()
    assert [decision.id for decision in interface.ask(n=30)] == list(range(1, 31))
    interface.tell(3, 1.0)
    with pytest.raises(kibitz.Conflict):
        interface.tell([(1, 1.0), (2, 0.0), (3, 0.0)])
    with pytest.raises(kibitz.UnknownDecision):
        interface.tell([(1, 1.0), (99, 0.0)])
    assert sum(n for (n,) in get_counts(agent, "n_pulls")) == 1
    assert interface.tell([(1, 1.0), (2, 0.0), (3, 1.0)]) == ["counted", "counted", "duplicate"]
    keys = [f"visit-{n}" for n in range(5)]
    assert interface.ask(n=5, key=keys) == interface.ask(n=5, key=keys)
    assert agent.check() == []


REWARDS = [math.nan, math.inf, -math.inf, 1e300, "1", [1], {}]
BAD_REWARD = "reward must be|body is not valid JSON"  # JSON has no NaN and no infinity
INVALID_CALLS = [
    (lambda a: a.ask(key=""), "key must be a text of 1 to 500 printable characters, got ''"),
    (lambda a: a.ask(key="a\nb"), "key must be a text"),
    (lambda a: a.ask(key="\ud800"), "key must be a text|body is not valid JSON"),
    (lambda a: a.ask(key=7), "key must be a text"),
    (lambda a: a.ask(among=["pink"]), "arm must be one of 'blue', 'green', 'red', got 'pink'"),
    (lambda a: a.ask(among="blue"), "among must be a list of names of arms"),
    (lambda a: a.ask(among=[]), "among must be a list of names of arms"),
    (lambda a: a.ask(n=0), "n must be a whole number of at least 1, got 0"),
    (lambda a: a.ask(n=2, key=["a"]), "key must be a list of 2 keys"),
    (lambda a: a.ask(n=2, key=["a", "a"]), "key must be a list of different keys"),
    (lambda a: a.tell(0, 1.0), "id must be a whole number of at least 1, got 0"),
    (lambda a: a.tell(2**70, 1.0), r"id must be a whole number below 2\^62"),
    (lambda a: a.tell("x", 1.0), "id must be a whole number, got 'x'"),
    (lambda a: a.observe("pink", 1.0), "arm must be one of 'blue', 'green', 'red', got 'pink'"),
    (lambda a: a.observe("", 1.0), "arm must be a text"),
    (lambda a: a.forget(1.5), "id must be a whole number, got 1.5"),
    (lambda a: a.correct(1, None), "reward must be a finite number"),
    (lambda a: a.correct(1, 0.5), "decision 1 has no reward to correct"),
    (lambda a: a.pause("pink"), "arm must be one of|arm 'pink' of agent .* does not exist"),
    (lambda a: a.add("blue"), "arm 'blue' already exists"),
    *((lambda a, x=x: a.tell(1, x), BAD_REWARD) for x in REWARDS),
    *((lambda a, x=x: a.observe("red", x), BAD_REWARD) for x in REWARDS),
]


def test_invalid_values_are_rejected_and_nothing_is_written(create_agent):
    interface, agent = create_agent()
    interface.ask()
    events_before = list(agent.events())
    for call, sentence in INVALID_CALLS:
        with pytest.raises(ValueError, match=sentence):
            call(interface)
    assert list(agent.events()) == events_before
    assert agent.check() == []


def test_decisions_are_forgotten_told_late_and_corrected(create_agent):
    interface, agent = create_agent()
    interface.ask()
    assert interface.forget(1) == "forgotten"
    assert interface.forget(1) == "duplicate"
    assert interface.tell(1, 1.0) == "counted"
    with pytest.raises(kibitz.Conflict, match=r"decision 1 cannot be forgotten: .* but told"):
        interface.forget(1)
    assert interface.correct(1, 0.25) == "corrected"
    assert interface.correct(1, 0.25) == "duplicate"
    kinds = [event.kind for event in agent.events(3)]
    assert kinds == ["pull", "forgotten", "told", "corrected"]
    assert agent.check() == []


def test_arms_are_added_paused_resumed_and_retired(create_agent):
    interface, agent = create_agent()
    interface.add("<b>/ä")
    interface.pause("blue")
    interface.pause("blue")
    assert {interface.ask().arm for _ in range(3)} == {"green", "red", "<b>/ä"}
    interface.resume("blue")
    assert interface.ask(among=["blue"]).arm == "blue"
    interface.retire("red")
    with pytest.raises(ValueError, match="arm 'red' is retired and cannot be resumed"):
        interface.resume("red")
    with pytest.raises(ValueError, match="among must contain active arms only, but 'red' is retired"):
        interface.ask(among=["red"])
    assert [arm.status for arm in agent.arms()] == ["active", "active", "retired", "active"]
    assert agent.check() == []


def test_a_policy_with_phases_waits_for_each_report(create_agent):
    interface, _ = create_agent(policy=kibitz.ucb2())
    assert interface.ask().id == 1
    with pytest.raises(ValueError, match="ucb2 needs the report of each pull before the next one"):
        interface.ask()
    assert interface.tell(1, 0.5) == "counted"
    assert interface.ask().id == 2
    with pytest.raises(ValueError, match="arm 'blue' cannot be paused: ucb2 does not support"):
        interface.pause("blue")


def test_the_log_the_report_and_the_export_agree_with_the_agent(create_agent, tmp_path):
    interface, agent = create_agent()
    for decision in interface.ask(n=20):
        interface.tell(decision.id, decision.id % 2)
    interface.tell(interface.look().id, 1.0)
    interface.ask()
    assert list(interface.events()) == list(agent.events())
    assert list(interface.events(after=5)) == list(agent.events(5))
    agent.now = lambda: 0.0  # the age of pending decisions depends on the time
    assert interface.verdict(0.1, 0.01) == agent.verdict(0.1, 0.01)
    report, agent_report = interface.report(), agent.report()
    assert report.attrs == agent_report.attrs or json.dumps(report.attrs) == json.dumps(
        agent_report.attrs
    )
    for name in agent_report.data_vars:
        if name != "oldest":
            np.testing.assert_array_equal(report[name], agent_report[name], name)
    for suffix in ("csv", "jsonl", "nc"):
        files = [tmp_path / f"{file_stem}.{suffix}" for file_stem in ("plays", "agent")]
        interface.export(files[0])
        agent.export(files[1])
        logs = [kibitz.from_log(file) for file in files]
        assert logs[0].means.tolist() == logs[1].means.tolist()
        assert suffix == "nc" or files[0].read_bytes() == files[1].read_bytes()


def test_concurrent_requests_get_consecutive_ids_and_all_are_stored(create_agent):
    interface, agent = create_agent()
    answers = []

    def work(worker):
        for n in range(10):
            decision = interface.ask(key=f"{worker}-{n}")
            answers.append((decision.id, interface.tell(decision.id, 0.5)))

    async def request(verb, **body):
        return (await interface.service.call("POST", f"{interface.path}/{verb}", body))[2]

    async def requests(worker):
        for n in range(10):
            id = (await request("ask", key=f"{worker}-{n}"))["id"]
            answers.append((id, (await request("tell", id=id, reward=0.5))["result"]))

    async def all_requests():
        await asyncio.gather(*(requests(worker) for worker in range(8)))

    if create_agent.kind == "service":
        interface.service.loop.run_until_complete(all_requests())
    else:
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(id for id, _ in answers) == list(range(1, 81))
    assert {result for _, result in answers} == {"counted"}
    assert sum(n for (n,) in get_counts(agent, "n_pulls")) == 80
    assert agent.check() == []
