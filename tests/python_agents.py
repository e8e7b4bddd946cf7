"""Python policies for the tests. Other processes can import this module, but not the test files."""

import math
import os


class PlainUCB:
    """UCB in plain Python: pull the arm with the largest index, look at the arm ranked second."""

    def __init__(self, n_arms):
        self.n_pulls, self.counts, self.sums = [0] * n_arms, [0] * n_arms, [0.0] * n_arms

    def ranking(self, stage):
        indices = [
            total / count + math.sqrt(6 * math.log(stage) / count) if n_pulls else math.inf
            for n_pulls, count, total in zip(self.n_pulls, self.counts, self.sums, strict=True)
        ]
        return sorted(range(len(indices)), key=lambda arm: -indices[arm])

    def pull(self, stage, rng):
        return self.ranking(stage)[0]

    def look(self, stage, rng):
        return self.ranking(stage)[1]

    def update(self, arm, reward, is_look):
        self.n_pulls[arm] += not is_look
        self.counts[arm] += 1
        self.sums[arm] += reward


class Guess:
    """A policy that pulls a random arm and has no method `look`."""

    def __init__(self, n_arms):
        self.n_arms = n_arms

    def pull(self, stage, rng):
        return rng.integers(self.n_arms)

    def update(self, arm, reward, is_look):
        pass


class Buggy(Guess):
    """A policy that raises AttributeError at stage 5."""

    def pull(self, stage, rng):
        return self.missing_attribute if stage == 5 else 0


class UnpicklableError(Exception):
    """An error that cannot be pickled."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class OddError(Guess):
    """A policy that raises an error that cannot be pickled."""

    def pull(self, stage, rng):
        raise UnpicklableError("two", "words")


class Dying(Guess):
    """A policy that ends its process."""

    def pull(self, stage, rng):
        os._exit(3)


class Noting(Guess):
    """A policy that creates a file named by the id of its process."""

    def __init__(self, n_arms, folder):
        super().__init__(n_arms)
        (folder / str(os.getpid())).touch()
