"""Tests of agents whose clock was once wrong."""

import time

import pytest

import kibitz
from kibitz.live.events import CLOCK_TOLERANCE

TEN_YEARS = 10 * 365 * 86400.0


def create_agent(url, **arguments):
    agent = kibitz.agent(
        url,
        "clicks",
        arms=["blue", "green"],
        rewards="bernoulli",
        patience=600.0,
        seed=1,
        **arguments,
    )
    clock = [2e9]
    agent.now = lambda: clock[0]
    return agent, clock


@pytest.mark.parametrize("silence", ["forget", 0.0])
def test_patience_ends_after_a_clock_was_ahead(url, silence):
    """An event dated ten years ahead changes neither the times nor the patience of later events."""
    agent, clock = create_agent(url, silence=silence)
    with agent:
        agent.ask(n=2)
        clock[0] += TEN_YEARS
        agent.ask(key="from the future")
        clock[0] -= TEN_YEARS
        with pytest.warns(RuntimeWarning, match=f"is {TEN_YEARS:.0f} s in the future"):
            agent.ask(n=3)
        assert agent.check() == []
        assert [event.at for event in agent.events()][-3:] == [2e9] * 3
        assert agent.ask(key="from the future").asked_at == 2e9
        assert sum(arm.n_pending for arm in agent.arms()) == 4
        clock[0] += 601
        agent.ask()
        assert sum(arm.n_pending for arm in agent.arms()) == 1
        if silence == 0.0:
            assert sum(arm.n_settled for arm in agent.arms()) == 6
        assert agent.check() == []


def test_a_read_after_a_clock_was_ahead_settles_nothing_early(url):
    """The present time, not the time of the last event, decides which decisions have settled."""
    agent, clock = create_agent(url, silence=0.0)
    with agent:
        clock[0] += TEN_YEARS
        agent.ask(n=4)
        clock[0] -= TEN_YEARS
        assert sum(arm.n_settled for arm in agent.arms()) == 0
        assert agent.report()["oldest"].max() == 0
        with pytest.warns(RuntimeWarning, match="in the future"):
            agent.ask()
        clock[0] += 601
        assert sum(arm.n_settled for arm in agent.arms()) == 5


def test_a_duplicate_does_not_set_the_times_back(url):
    """A transaction without an event does not change the stored times, so they match the log."""
    agent, clock = create_agent(url)
    with agent:
        clock[0] += TEN_YEARS
        id = agent.ask(key="visit").id
        agent.tell(id, 1.0)
        clock[0] -= TEN_YEARS
        assert agent.tell(id, 1.0) == "duplicate"
        assert agent.ask(key="visit").asked_at == 2e9 + TEN_YEARS
        assert agent.check() == []


def test_small_differences_of_clocks_keep_the_order_of_times(url):
    agent, clock = create_agent(url)
    with agent:
        agent.ask()
        clock[0] -= CLOCK_TOLERANCE
        assert agent.ask().asked_at == 2e9
        assert agent.check() == []


def test_clocks_that_alternate_leave_a_consistent_log(url):
    """If the clocks of two machines differ by a day, a replay still gives the stored state."""
    agent, clock = create_agent(url, silence=0.0)
    with agent:
        for stage in range(12):
            clock[0] += 86400 + 100 if stage % 2 == 0 else -86400
            if stage % 2 == 0:
                agent.ask(n=2)
            else:
                with pytest.warns(RuntimeWarning, match="in the future"):
                    agent.tell(agent.ask().id, 1.0)
            assert agent.check() == []


def test_the_age_of_a_pending_decision_follows_the_present_clock(url):
    """An event dated ten years ahead does not make a pending decision look ten years old."""
    agent, clock = create_agent(url)
    with agent:
        agent.ask()
        clock[0] += TEN_YEARS
        agent.observe("blue", 1.0)
        clock[0] += 60 - TEN_YEARS
        assert agent.report()["oldest"].max() == 60


def test_a_clock_behind_the_clock_of_the_server_is_not_trusted(database):
    """A machine whose clock is a day behind neither sets times back nor prolongs the patience."""
    agent, clock = create_agent(database, silence=0.0)
    with agent:
        clock[0] = start = time.time()
        agent.ask(n=3)
        clock[0] -= 86400
        with pytest.warns(RuntimeWarning, match="clock of this machine is more than 3600 s behind"):
            late = agent.ask()
        assert start <= late.asked_at <= time.time()
        clock[0] = time.time()
        agent.ask()
        assert sum(arm.n_pending for arm in agent.arms()) == 5
        assert agent.check() == []
