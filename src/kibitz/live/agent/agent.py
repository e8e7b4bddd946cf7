"""Live agents: ask which arm to pull, then tell the reward.

Each operation is one transaction on the agent's store. It appends to the event log, updates the
projection (`kibitz.live.events`) and returns after the commit. An agent has no state outside its
store. Threads, processes and, on PostgreSQL, machines can therefore share an agent, crash and
restart without losing data.
"""

import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from kibitz._errors import StoreDamaged
from kibitz._validation import finite, flag, invalid, text, whole
from kibitz.live.agent import policy_state
from kibitz.live.agent.config import (
    MAX_SCALES,
    Config,
    ConfigData,
    check_config,
    check_declaration,
    check_reward,
    check_same,
    to_stored,
)
from kibitz.live.agent.history import check_one_name, parse_observation
from kibitz.live.agent.transaction import KnownArms, Operation, Transaction, read_arms
from kibitz.live.events import Arm, Decision, Event
from kibitz.live.monitor import Alarm
from kibitz.live.store import audit, connect, queries, sqlite_path
from kibitz.live.store.schema import Database, Store
from kibitz.model.feedback import Feedback
from kibitz.model.problem import MAX_REWARD
from kibitz.policies.policy import Policy, Rewards

if TYPE_CHECKING:
    import xarray

    from kibitz.live.agent.stopping import Verdict


def agent(
    url: str | os.PathLike[str],
    name: str,
    *,
    arms: Sequence[str] | None = None,
    rewards: Rewards | None = None,
    policy: Policy | None = None,
    scale: float | None = None,
    seed: int | np.random.SeedSequence | None = None,
    patience: float | None = None,
    silence: str | float = "forget",
    bucket: float = 0.0,
    bucket_is_free: bool = False,
    shows: ArrayLike | Feedback | None = None,
    alarms: float | None = None,
) -> "Agent":
    """Open an agent; create it if it does not exist and `arms` are given.

    Parameters
    ----------
    url
        The store: the path of a SQLite file, `sqlite:///...` or `postgresql://...`.
    name
        The agent's name in the store.
    arms
        The names of at least two arms. Without `arms`, the agent must already exist. If `arms` are
        given and the agent already exists, all arguments must be those with which it was created;
        only the policy and the seed can be omitted.
    rewards
        The kind of rewards: "bernoulli" for rewards of 0 or 1, such as clicks; "bounded" for any
        numbers in [0, 1]; "gaussian" for other rewards, which need a `scale`. The agent rejects all
        other rewards. `rewards` is required to create an agent, unless the policy is for bernoulli or
        bounded rewards.
    policy
        A policy of kibitz, or a policy made by `index_policy` from a function at the top level of a
        module or file. Opening the agent later imports that module. The default is `kibitzer` for the
        agent's kind of rewards. If a policy for Gaussian rewards gets rewards in [0, 1], it uses the
        scale 1/2.
    scale
        The sub-Gaussian scale of Gaussian rewards, such as their standard deviation. Rewards of the
        other kinds have no scale.
    seed
        Seed of randomised policies. Each decision depends on the seed and the decision's id. The
        default is a random seed.
    patience
        The number of seconds after which a decision without a report stops being pending. By default,
        decisions stay pending until they are reported. A late report still counts.
    silence
        The reward of a decision that has no report after `patience` seconds, such as 0 for no click.
        With "forget", such a decision has no reward and is not counted. With a number, means and
        intervals use only settled decisions, which are older than `patience`.
    bucket
        The probability ε with which `ask` chooses uniformly at random among the arms that may be
        pulled, instead of asking the policy. Each decision records the `probability` of its arm, so
        the log can say what another policy would have earned (`kibitz.evaluate`). Without a bucket,
        a deterministic policy gives all other arms probability 0.
    bucket_is_free
        Whether the decisions of the bucket count as looks instead of pulls. Use this only if these
        visitors would be shown a random arm anyway; otherwise they are part of the regret.
    shows
        The graph of an agent whose pulls show rewards of other arms: a square matrix as for
        `kibitz.graph`, in the order of `arms`, or a result of `kibitz.graph`. Report each shown
        reward with `observe(arm, reward, shown_by=id)`, and a pull that hides its own reward with
        `forget(id)`. The policy then decides as in the simulator with this graph. The default is no
        graph; shown rewards can then still be reported.
    alarms
        The probability of a false alarm, such as 0.1, for an agent with a monitor. The monitor looks
        for changes of the mean of each arm, over the settled decisions in the order in which they
        were made, so it needs a `patience`. If no mean changes, the probability that any arm raises
        an alarm among its first 100,000 rewards is at most `alarms`. An alarm changes the report
        but no decision. The default is no monitor.
    """
    arguments = check_config(
        name, arms, rewards, policy, scale, seed, patience, silence, bucket, bucket_is_free,
        shows, alarms,
    )  # fmt: skip
    store = connect(url, create=arms is not None)
    try:
        return open_agent(store, name, arguments)
    except BaseException:
        store.close()
        raise


def open_agent(store: Store, name: str, arguments: ConfigData) -> "Agent":
    """Open an agent of an open store; create it if it does not exist and `arguments` has arms."""
    if arguments["arms"] is not None:
        stored_config = to_stored(arguments)
        store.write(
            lambda db: queries.insert_agent(db, name, stored_config, arguments["arms"], time.time())
        )
    config = Config(name, *store.read(lambda db: queries.read_config(db, name)))
    check_same(config, arguments)
    return Agent(store, config)


def check_store(url: str, name: str | None = None) -> dict[str, list[str]]:
    """Return, by agent, the discrepancies between the stored state and the event log.

    `name` limits the check to one agent. The key "file" lists the problems of a SQLite file: damage,
    and missing acknowledged events. If the agents of a damaged file cannot be checked, their lists
    say which events can be read.
    """
    discrepancies: dict[str, list[str]] = {}
    path = sqlite_path(url)
    try:
        store = connect(url, create=False)
        try:
            if path is not None and (damage := audit.check_file(store, path)):
                discrepancies["file"] = damage
            names = store.read(queries.read_names) if name is None else [name]
        finally:
            store.close()
        for agent_name in names:
            with agent(url, agent_name) as opened_agent:
                discrepancies[agent_name] = opened_agent.check()
    except StoreDamaged as error:
        readable = {} if path is None else audit.find_readable_events(path)
        if not readable:
            raise
        discrepancies.setdefault("file", [f"damaged: {error}"])
        for agent_name, last in readable.items():
            if name in (None, agent_name):
                discrepancies[agent_name] = [f"events 1 to {last} of the log can be read"]
    return discrepancies


class Agent:
    """A named decision maker, created or opened by `kibitz.agent`.

    `store` holds the agent's data; `config` holds the arguments with which the agent was created.
    """

    def __init__(self, store: Store, config: Config) -> None:
        self.name = config.name
        self.config = config
        self.now: Callable[[], float] = time.time
        self._store = store
        self._is_closed = False
        self._known: KnownArms | None = None

    def __repr__(self) -> str:
        return f"agent({self._store.display_url!r}, {self.name!r})"

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def store(self) -> Store:
        """The store that holds the agent; a closed agent raises ValueError."""
        if self._is_closed:
            raise ValueError(f"agent {self.name!r} is closed; open it again with kibitz.agent()")
        return self._store

    @property
    def policy(self) -> Policy:
        """The policy that chooses the arms."""
        return self.config.policy

    def close(self) -> None:
        """Close the store. All data is already committed; a closed agent cannot be used."""
        self._is_closed = True
        self._store.close()

    @overload
    def ask(self, key: str | None = None, among: Sequence[str] | None = None) -> Decision: ...

    @overload
    def ask(
        self, key: Sequence[str] | None = None, among: Sequence[str] | None = None, *, n: int
    ) -> list[Decision]: ...

    def ask(self, key: Any = None, among: Sequence[str] | None = None, n: int | None = None) -> Any:
        """Choose an arm to pull; return a `Decision`, or a list of `n` decisions.

        Parameters
        ----------
        key
            Idempotency key: repeated requests with the same key get the same decision. With `n`, a
            list of `n` keys.
        among
            The names of the active arms to choose from. The default is all active arms.
        n
            The number of decisions to make in one transaction.
        """
        return self.batch([("ask", (key, among, n))])[0]

    def look(self, key: str | None = None) -> Decision:
        """Choose the arm of the next look (free observation); return a `Decision`."""
        decision: Decision = self.batch([("look", (key,))])[0]
        return decision

    @overload
    def tell(self, id: int, reward: float, *, force: bool = False) -> str: ...

    @overload
    def tell(self, *, key: str, reward: float, force: bool = False) -> str: ...

    @overload
    def tell(self, id: Sequence[tuple[int, float]], *, force: bool = False) -> list[str]: ...

    def tell(
        self, id: Any = None, reward: Any = None, *, key: str | None = None, force: bool = False
    ) -> Any:
        """Report the reward of a decision; return "counted", or "duplicate" for a repeated report.

        Name the decision by its id, or by the key with which you asked for it. A different reward
        for the same decision raises `Conflict`; an unknown id or key raises `UnknownDecision`. True
        counts as 1 and False as 0. To report several rewards in one transaction, pass a list of
        (id, reward) pairs.

        A Gaussian reward beyond 10,000 times the agent's scale is usually an error. It raises
        ValueError unless `force` is True.
        """
        if isinstance(id, list | tuple) and reward is None:
            return self.batch([("tell", (*_parse_report(pair), force)) for pair in id])
        return self.batch([name_decision(id, key, reward, force)])[0]

    @overload
    def observe(
        self,
        arm: str,
        reward: float,
        key: str | None = None,
        *,
        force: bool = False,
        shown_by: int | None = None,
    ) -> str: ...

    @overload
    def observe(self, arm: Sequence[tuple[str, float, str]], *, force: bool = False) -> list[str]: ...

    @overload
    def observe(
        self, arm: Sequence[tuple[str, float]], *, force: bool = False, shown_by: int
    ) -> list[str]: ...

    def observe(
        self,
        arm: Any,
        reward: Any = None,
        key: str | None = None,
        *,
        force: bool = False,
        shown_by: int | None = None,
    ) -> Any:
        """Report an observation that was not asked for.

        Return "counted", or "duplicate" if the same observation was already reported with this key.
        Another arm or another reward with the same key raises `Conflict`. `force` works as in `tell`.
        To report several observations in one transaction, pass a list of (arm, reward, key).

        If a pull showed this reward of another arm, `shown_by` is the id of the pull. A pull shows
        each arm at most once, so such an observation needs no key: a repeated report is a duplicate,
        and another reward of the same arm raises `Conflict`. To report all that a pull showed, pass
        a list of (arm, reward) and `shown_by`.
        """
        if isinstance(arm, list | tuple) and reward is None:
            rows = [parse_observation(row, shown_by is None) for row in arm]
            return self.batch([("observe", (*row, force, shown_by)) for row in rows])
        return str(self.batch([("observe", (arm, reward, key, force, shown_by))])[0])

    def forget(self, id: int) -> str:
        """Stop waiting for the report of a decision.

        Return "forgotten", or "duplicate" if the decision was already forgotten. A late report still
        counts.
        """
        return str(self.batch([("forget", (id,))])[0])

    def correct(self, id: int, reward: float, *, force: bool = False) -> str:
        """Replace the reward of a decision.

        Return "corrected", or "duplicate" if the decision already has this reward. `force` works as
        in `tell`.
        """
        return str(self.batch([("correct", (id, reward, force))])[0])

    def batch(
        self, operations: Sequence[tuple[str, tuple[Any, ...]]], *, return_errors: bool = False
    ) -> list[Any]:
        """Run several operations in one transaction; return their answers.

        Each operation is a pair: a name (ask, look, tell, observe, forget or correct) and a tuple of
        arguments. If any operation is invalid, no operation is applied. With `return_errors`, the
        ValueError of an invalid operation is returned in place of its answer, and the other
        operations are applied.
        """
        parsed_operations = [self._parse(name, values, return_errors) for name, values in operations]

        def work(database: Database) -> tuple[list[Any], Transaction]:
            known, self._known = self._known, None
            transaction = Transaction(self.config, database, self.now(), known)
            transaction.settle()
            if any(name in {"ask", "look"} for name, _ in operations):
                transaction.expire()
            if len(parsed_operations) > 1:
                transaction.prefetch(parsed_operations)
            answers: list[Any] = []
            for operation in parsed_operations:
                before = transaction.n_events
                try:
                    if isinstance(operation, Exception):
                        raise operation
                    name, values = operation
                    answers.append(getattr(transaction, name)(*values))
                except ValueError as error:
                    partly_applied = transaction.n_events > before
                    if not return_errors or partly_applied:
                        raise
                    answers.append(error)
            transaction.finish()
            return answers, transaction

        answers, transaction = self.store.write(work)
        self._known = transaction.known_arms
        self.config.rewards = transaction.rewards
        return answers

    def _parse(
        self, name: str, values: tuple[Any, ...], return_errors: bool
    ) -> Operation | Exception:
        """Return an operation with validated arguments.

        If the arguments are invalid, raise ValueError, or return it if `return_errors` is True.
        """
        try:
            return name, getattr(self, f"_parse_{name}")(*values)
        except ValueError as error:
            if not return_errors:
                raise
            return error

    def _parse_ask(self, key: Any, among: Any, n: Any) -> tuple[Any, ...]:
        if among is not None:
            if isinstance(among, str) or not isinstance(among, Sequence) or not among:
                raise invalid("among", "a list of names of arms", among)
            among = [text(name, "among") for name in among]
            if self.config.in_turn:
                raise ValueError(f"{self.policy.name} does not support among={among!r}; omit it")
        if n is None:
            return ([None if key is None else text(key, "key")], among, False)
        n = whole(n, "n", 1, 100_000)
        if self.config.in_turn and n > 1:
            name = self.policy.name
            raise ValueError(
                f"n must be 1 for {name}, got {n}: tell the reward of each decision before you ask "
                "for the next decision"
            )
        if key is None:
            return ([None] * n, among, True)
        if isinstance(key, str) or not isinstance(key, Sequence) or len(key) != n:
            raise invalid("key", f"a list of {n} keys", key)
        return ([text(single_key, "key") for single_key in key], among, True)

    def _parse_look(self, key: Any) -> tuple[Any, ...]:
        return (None if key is None else text(key, "key"),)

    def _parse_tell(self, id: Any, reward: Any, force: Any = False) -> tuple[Any, ...]:
        return whole(id, "id", 1), self._parse_reward(reward, force)

    def _parse_tell_key(self, key: Any, reward: Any, force: Any = False) -> tuple[Any, ...]:
        return text(key, "key"), self._parse_reward(reward, force)

    def _parse_observe(
        self, arm: Any, reward: Any, key: Any, force: Any = False, shown_by: Any = None
    ) -> tuple[Any, ...]:
        id = None if shown_by is None else whole(shown_by, "shown_by", 1)
        return text(arm, "arm"), self._parse_reward(reward, force), *self._parse_look(key), id

    def _parse_observe_line(self, line: int, *values: Any) -> tuple[Any, ...]:
        try:
            return line, *self._parse_observe(*values)
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None

    def _parse_forget(self, id: Any) -> tuple[Any, ...]:
        return (whole(id, "id", 1),)

    _parse_correct = _parse_tell

    def _parse_change(self, kind: str, arm: Any) -> tuple[Any, ...]:
        name = text(arm, "arm")
        if self.config.in_turn:
            raise ValueError(
                f"arm {name!r} cannot be {kind}: {self.policy.name} does not support changes of arms"
            )
        return kind, name

    def _parse_compact(self, before: Any) -> tuple[Any, ...]:
        return (parse_time(before),)

    def _parse_erase(self, key: Any) -> tuple[Any, ...]:
        keys = [key] if isinstance(key, str) else key
        if not isinstance(keys, list | tuple) or not keys:
            raise invalid("key", "a string or a non-empty list of strings", key)
        return ([text(single_key, "key") for single_key in keys],)

    def _parse_declare(self, rewards: Any) -> tuple[Any, ...]:
        return (check_declaration(rewards),)

    def _parse_reward(self, reward: Any, force: Any) -> float:
        if isinstance(reward, bool | np.bool_):  # True for a click, False for no click
            reward = float(reward)
        value = check_reward(finite(reward, "reward"), self.config.rewards)
        if abs(value) > MAX_REWARD:
            raise invalid("reward", f"between -{MAX_REWARD:g} and {MAX_REWARD:g}", reward)
        scale = self.config.scale
        if not flag(force, "force") and abs(value) > MAX_SCALES * scale:
            raise ValueError(
                f"reward {value!r} is more than {MAX_SCALES:,} times the scale {scale!r} of agent "
                f"{self.name!r}; check the reward, and use force if it is right"
            )
        return value

    def add(self, arm: str) -> None:
        """Add an arm."""
        self.batch([("change", ("added", arm))])

    def pause(self, arm: str) -> None:
        """Stop pulling an arm until it is resumed."""
        self.batch([("change", ("paused", arm))])

    def resume(self, arm: str) -> None:
        """Pull a paused arm again."""
        self.batch([("change", ("resumed", arm))])

    def retire(self, arm: str) -> None:
        """Stop pulling an arm permanently; late reports of its rewards still count."""
        self.batch([("change", ("retired", arm))])

    def declare_rewards(self, rewards: Literal["bernoulli", "bounded"]) -> str:
        """Declare that all rewards are "bernoulli" (0 or 1) or "bounded" (in [0, 1]).

        From then on, the agent rejects other rewards, and its intervals assume this kind of rewards.
        The policy stays the same. A declaration is an event of the log and can be made only once. It
        can only narrow the kind with which the agent was created. Raise ValueError if a reward of the
        agent contradicts the declaration. Return "declared", or "duplicate" if the agent already has
        this kind of rewards.
        """
        return str(self.batch([("declare", (rewards,))])[0])

    def compact(self, before: float | str | datetime) -> int:
        """Replace the events before a time by a checkpoint; return the number of these events.

        The checkpoint keeps every count, sum, interval and warning exactly. It keeps the decisions
        that wait for a report; all other decisions of these events are removed with their keys.
        Afterwards, a report, a correction or a repeated request for a removed decision is not
        recognised. Choose a time before which no late report is expected.

        Parameters
        ----------
        before
            A time in seconds since 1970, a `datetime`, or an ISO 8601 date such as "2026-01-31". A
            time without a time zone is in UTC.
        """
        n_events: int = self.batch([("compact", (before,))])[0]
        self._purge()
        return n_events

    def erase(self, key: str | Sequence[str]) -> list[str]:
        """Remove a visitor's keys from the store; return "erased" or "unknown" for each key.

        The decisions and all numbers stay the same. The store's files are rewritten, so that they
        no longer contain the keys; this takes time in proportion to their size. Backups and exported
        files are not changed. Afterwards, a request with an erased key counts as a new request.
        """
        results: list[str] = self.batch([("erase", (key,))])[0]
        self._purge()
        return results

    def _purge(self) -> None:
        """Purge the store if its files may still contain deleted data."""
        if self.store.read(queries.needs_purge):
            self.store.purge()

    def arms(self) -> list[Arm]:
        """Return the arms with their counts, in the order in which they were added."""
        return self.store.read(lambda database: read_arms(database, self.config, self.now()))[0]

    def alarms(self) -> list[Alarm]:
        """Return the alarms of the monitor, oldest first; [] if the agent has no monitor."""
        return self.store.read(lambda database: read_arms(database, self.config, self.now()))[1]

    def report(self, delta: float = 0.05) -> "xarray.Dataset":
        """Return means, confidence sequences, regret and warnings; see `kibitz.live.agent.report`."""
        from kibitz.live.agent.report import report

        return report(self.store, self.config, self.now(), delta)

    def verdict(self, delta: float = 0.05, tolerance: float = 0.0) -> "Verdict":
        """Return the winner, if there is one, and a bound on the loss of stopping now.

        Parameters
        ----------
        delta
            The probability that any verdict names a wrong winner or has a bound that is too small is
            at most `delta`, however often you ask and whichever policy chooses the arms. With a
            monitor, only the rewards since the last change of each arm count, and the guarantee
            assumes that the means changed at the times that the monitor reports.
        tolerance
            The loss per pull that you accept, in units of reward: 0.002 for 0.2 clicks in 100 views.
        """
        from kibitz.live.agent.report import select_regimes
        from kibitz.live.agent.stopping import decide

        config, n_founding = self.config, len(self.config.data["arms"])
        arms = select_regimes(self.arms(), config)
        return decide(arms, config.rewards, config.scale, n_founding, delta, tolerance)[0]

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log with numbers greater than `after`."""
        seq = whole(after, "after")
        read_page = functools.partial(queries.read_page, name=self.name, config=self.config.stored)
        while page := self.store.read(functools.partial(read_page, after=seq)):
            yield from page
            seq = page[-1].seq

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the log to a file: .csv, .jsonl (JSON lines) or .nc (netCDF)."""
        from kibitz.live.agent.export import export

        export(self.events(), file)

    def check(self) -> list[str]:
        """Replay the log; return the discrepancies between the stored state and the log, as text."""

        config = self.config

        def work(database: Database) -> list[str]:
            row = queries.read_agent(database, self.name, config=config.stored)
            try:
                replayed = queries.replay_log(
                    database, row.number, config.patience, config.silence, monitor=config.monitor
                )
            except ValueError as error:
                return [f"log of {self.name}: {error}"]
            state = policy_state.replay(self.config, replayed)
            empty = policy_state.init(self.config, len(replayed.arms))
            if policy_state.is_outdated(row.state, empty):  # the next operation rebuilds the state
                state = row.state
            return audit.compare(database, row, replayed, state)

        return self.store.read(work)


def parse_time(value: Any) -> float:
    """Return a time in seconds since 1970; raise ValueError if it is not a time."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise invalid("before", "a date such as 2026-01-31", value) from None
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return finite(value, "before")


def _parse_report(pair: Any) -> tuple[Any, Any]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise invalid("reports", "a list of (id, reward) pairs", pair)
    return pair[0], pair[1]


def name_decision(id: Any, key: Any, reward: Any, force: Any) -> Operation:
    """Return the operation that reports the reward of the decision with this id or this key."""
    check_one_name(id, key)
    return ("tell", (id, reward, force)) if key is None else ("tell_key", (key, reward, force))
