"""The environment that `gym_env` returns. Only this module imports Gymnasium."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from kibitz._validation import invalid
from kibitz.engine.environment import (
    ACTIVE,
    FULL,
    PASSIVE,
    draw,
    make_arms,
    make_graph,
    make_look_functions,
    make_looks,
    make_pieces,
    next_shown,
    start_piece,
)
from kibitz.engine.rng import make_seeds, new_streams, seed_shows, seed_stream, uniform
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.simulation.jobs import new_control

Observation = dict[str, Any]


class BanditEnv(gymnasium.Env):  # type: ignore[misc]
    """A problem with feedback as an environment of Gymnasium; see `gym_env`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (the type that Gymnasium declares)

    def __init__(self, problem: Problem, feedback: Feedback, horizon: int, seed: int) -> None:
        self.problem, self.feedback, self.horizon, self.seed = problem, feedback, horizon, seed
        self.arms = make_arms(problem.at(1), 1.0)
        self.looks = make_looks(feedback, problem.at(1).gaps, horizon)
        self.gaps, self.pieces = problem.at(1).gaps, None
        if problem.pieces:
            self.arms, self.pieces = make_pieces(problem, feedback, self.arms)
        self.next_arrival, self.draw_look_arm = make_look_functions(feedback)
        self.graph = None if feedback.shows is None else make_graph(feedback.shows, problem.n_arms)
        self.streams, self.control = new_streams(self.graph is not None), new_control()
        self.run, self.stage, self.arrival, self.regret = -1, 0, 0, 0.0
        n_arms = problem.n_arms
        is_active = self.looks.observer == ACTIVE
        self.action_space = (
            spaces.MultiDiscrete([n_arms] * (1 + feedback.looks))
            if is_active
            else spaces.Discrete(n_arms)
        )
        low, high = (bound * (1 + feedback.looks) for bound in problem.support)
        self.observation_space = spaces.Dict(
            {
                "counts": spaces.Box(0, 1 + feedback.looks, (n_arms,), np.int64),
                "sums": spaces.Box(min(low, 0.0), max(high, 0.0), (n_arms,), np.float64),
                "look": spaces.Discrete(2),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the next run; if `seed` is given, begin run 0 of this seed."""
        super().reset(seed=seed)
        if seed is not None:
            self.seed, self.run = seed, -1
        self.run += 1
        (words,) = make_seeds(self.seed, self.run, self.run + 1)
        seed_stream(self.streams.rewards, words[0:3])
        seed_stream(self.streams.looks, words[3:6])
        if self.graph is not None:
            self.streams.show_key[:] = words[9:12]
        self.stage, self.regret = 0, 0.0
        self._find_next_arrival()
        n_arms = self.problem.n_arms
        return self._observe(np.zeros(n_arms, np.int64), np.zeros(n_arms)), self._make_info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play a stage; return observation, reward, terminated (False), truncated and info."""
        if self.run < 0 or self.stage == self.horizon:
            raise ValueError("no run is in progress; call reset() first")
        if not self.action_space.contains(action):
            raise invalid("action", f"in {self.action_space}", action)
        pull, *chosen_looks = map(int, np.atleast_1d(action))
        observer = self.looks.observer
        self.stage += 1
        if self.pieces is not None and self.stage in self.problem.starts:
            piece = self.problem.starts.index(self.stage)
            start_piece(self.pieces, piece, self.arms, self.looks, self.gaps)
        counts, sums = np.zeros(self.problem.n_arms, np.int64), np.zeros(self.problem.n_arms)
        self.regret += float(self.gaps[pull])
        if observer == FULL:
            counts += 1
            sums[:] = [draw(self.arms, arm, self.streams.rewards) for arm in range(counts.size)]
            reward = float(sums[pull])
        else:
            reward = float(draw(self.arms, pull, self.streams.rewards))
            counts[pull], sums[pull] = 1, reward
        if self.graph is not None:
            self._draw_shows(pull, counts, sums)
        if self.stage == self.arrival:
            for nth in range(self.looks.per_arrival):
                if observer == PASSIVE:
                    look = int(self.draw_look_arm(self.looks, self.stage, self.streams.looks.rng))
                else:
                    look = chosen_looks[nth]
                counts[look] += 1
                sums[look] += draw(self.arms, look, self.streams.looks)
                if self.feedback.paid:
                    self.regret += float(self.gaps[look])
            self._find_next_arrival()
        is_over = self.stage == self.horizon
        return self._observe(counts, sums), reward, False, is_over, self._make_info()

    def _draw_shows(self, pull: int, counts: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
        """Add the rewards of other arms that a pull shows to `counts` and `sums`.

        If the pull hides its own reward, remove this reward.
        """
        graph, stream = self.graph, self.streams.shows
        assert graph is not None
        seed_shows(stream, self.streams.show_key, self.stage, pull)
        if graph.own[pull] < 1 and uniform(stream) >= graph.own[pull]:
            counts[pull], sums[pull] = 0, 0.0
        edge = next_shown(graph, pull, graph.offsets[pull], stream)
        while edge < graph.offsets[pull + 1]:
            arm = graph.arms[edge]
            counts[arm], sums[arm] = 1, draw(self.arms, arm, stream)
            edge = next_shown(graph, pull, edge + 1, stream)

    def _find_next_arrival(self) -> None:
        rng = self.streams.looks.rng
        self.arrival = int(self.next_arrival(self.looks, self.stage, self.horizon, rng, self.control))

    def _observe(self, counts: NDArray[np.int64], sums: NDArray[np.float64]) -> Observation:
        return {"counts": counts, "sums": sums, "look": int(self.arrival == self.stage + 1)}

    def _make_info(self) -> dict[str, Any]:
        return {"stage": self.stage, "regret": self.regret, "run": self.run}
