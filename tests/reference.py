"""A reference implementation of the model and the policies in slow, obvious Python.

This file does not import `kibitz`, so agreement between this file and `kibitz` is evidence that both
are right. Numbers of sections and algorithms refer to the paper, and D1, D2, … to docs/errata/.
Policies store every reward and recompute everything for each decision. The interface is
`pull(stage)`, `look(stage)` and `update(stage, arm, reward, is_look)`; stages count from 1. Ties go
to the lowest arm. On a graph, `on_graph` is true, `show(stage, pulled, arm, reward)` reports a reward
that a pull shows, and `hide(stage, arm)` reports that a pull hid its own reward.
"""

import math
from decimal import Decimal, localcontext
from functools import cache
from statistics import NormalDist

# ------------------------------------------------------------------------------------- policies


def mean(rewards):
    return math.fsum(rewards) / len(rewards)


def rank_arms(values):
    """Return the arms from the largest value to the smallest; equal values keep their order."""
    return sorted(range(len(values)), key=lambda arm: -values[arm])


class Rewards:
    """All rewards that a policy received, separately for pulls, looks and shows."""

    counts_shows_as_looks = True
    on_graph = False

    def __init__(self, n_arms):
        self.arms = range(n_arms)
        self.n_arms = n_arms
        self.pull_rewards = [[] for _ in self.arms]
        self.look_rewards = [[] for _ in self.arms]
        self.shown_rewards = [[] for _ in self.arms]
        self.n_hidden = 0

    def update(self, stage, arm, reward, is_look):
        (self.look_rewards if is_look else self.pull_rewards)[arm].append(reward)

    def show(self, stage, pulled, arm, reward):
        if self.counts_shows_as_looks:
            self.update(stage, arm, reward, True)
        else:
            self.shown_rewards[arm].append(reward)

    def hide(self, stage, arm):
        self.n_hidden += 1

    def observed_rewards(self, arm):
        return self.pull_rewards[arm] + self.look_rewards[arm] + self.shown_rewards[arm]

    def is_tried(self, arm):
        return bool(self.observed_rewards(arm) if self.on_graph else self.pull_rewards[arm])


class Index(Rewards):
    """Pull each arm once, then the arm with the largest index; look at the arm ranked second."""

    ignore_looks = False
    counts_shows_as_looks = False

    def observed_rewards(self, arm):
        return self.pull_rewards[arm] if self.ignore_looks else super().observed_rewards(arm)

    def ranking(self, stage):
        return rank_arms(
            [self.index(stage, arm) if self.is_tried(arm) else math.inf for arm in self.arms]
        )

    def pull(self, stage):
        return self.ranking(stage)[0]

    def look(self, stage):
        return self.ranking(stage)[1]


class FTL(Index):
    """Follow the leader (section 2.1.1)."""

    def index(self, stage, arm):
        return mean(self.observed_rewards(arm))


class FTLRobin(FTL):
    """Follow the leader, and look at the arms in turn (section 2.2)."""

    def look(self, stage):
        return sum(map(len, self.look_rewards)) % self.n_arms


class UCB(Index):
    """UCB (Algorithm 1), with the looks of UCB1-Double (section 4.2.1)."""

    def __init__(self, n_arms, exploration=6.0, ignore_looks=False):
        super().__init__(n_arms)
        self.exploration, self.ignore_looks = exploration, ignore_looks

    def index(self, stage, arm):
        rewards = self.observed_rewards(arm)
        return mean(rewards) + math.sqrt(self.exploration * math.log(stage) / len(rewards))


class UCBSecond(UCB):
    """UCB, with looks chosen by a second UCB among the arms that are not pulled (section 5).

    The second UCB learns from looks only.
    """

    def look(self, stage):
        pulled_arm = self.pull(stage)
        clock = 1 + sum(map(len, self.look_rewards))
        best_arm, largest_index = None, -math.inf
        for arm in self.arms:
            looks = self.look_rewards[arm]
            index = math.inf
            if looks:
                index = mean(looks) + math.sqrt(self.exploration * math.log(clock) / len(looks))
            if arm != pulled_arm and (best_arm is None or index > largest_index):
                best_arm, largest_index = arm, index
        return best_arm


def ocucb_index(stage, arm, counts, average, eta, rho):
    """Return the index of OCUCB-n (section 4.2), with the sum over j (D23)."""
    n = counts[arm]
    sum_of_counts = math.fsum(min(n, m**rho * n ** (1 - rho)) for m in counts if m > 0)
    b = max(math.e, math.log(stage), stage * math.log(stage) / sum_of_counts)
    return average + math.sqrt(2 * eta * math.log(b) / n)


class OCUCB(Index):
    def __init__(self, n_arms, eta=2.0, rho=0.5, ignore_looks=False):
        super().__init__(n_arms)
        self.eta, self.rho, self.ignore_looks = eta, rho, ignore_looks

    def index(self, stage, arm):
        counts = [len(self.observed_rewards(other_arm)) for other_arm in self.arms]
        return ocucb_index(stage, arm, counts, mean(self.observed_rewards(arm)), self.eta, self.rho)


class MOSS(Index):
    """MOSS of Audibert and Bubeck (2009)."""

    def __init__(self, n_arms, exploration=4.0, horizon=1000):
        super().__init__(n_arms)
        self.exploration, self.horizon = exploration, horizon

    def index(self, stage, arm):
        return self.moss_index(self.horizon, arm)

    def moss_index(self, horizon, arm):
        rewards = self.observed_rewards(arm)
        ratio = horizon / (self.n_arms * len(rewards))
        log_ratio = math.log(ratio) if ratio > 1 else 0.0
        return mean(rewards) + math.sqrt(self.exploration * log_ratio / len(rewards))


class MOSSAnytime(MOSS):
    """MOSS-anytime of Degenne and Perchet (2016)."""

    def __init__(self, n_arms, exploration=4.7):
        super().__init__(n_arms, exploration, None)

    def index(self, stage, arm):
        return self.moss_index(stage, arm)


class KLUCB(Index):
    """KL-UCB of Garivier and Cappé (2011); the Bernoulli index is computed by bisection."""

    def __init__(self, n_arms, rewards="gaussian", scale=1.0, c=0.0):
        super().__init__(n_arms)
        self.rewards, self.scale, self.c = rewards, scale, c

    def index(self, stage, arm):
        rewards = self.observed_rewards(arm)
        level = math.log(stage)
        if level > 1:
            level += self.c * math.log(level)
        if self.rewards == "gaussian":
            return mean(rewards) + self.scale * math.sqrt(2 * level / len(rewards))
        return kl_upper_bound(mean(rewards), level / len(rewards))


def divergence(x, q):
    """Return kl(x, q), the divergence of Bernoulli distributions with means x and 0 < q < 1."""
    first_term = x * (math.log(x) - math.log(q)) if x > 0 else 0.0
    second_term = (1 - x) * (math.log1p(-x) - math.log1p(-q)) if x < 1 else 0.0
    return first_term + second_term


def kl_upper_bound(x, bound):
    """Return the largest mean q >= x with divergence kl(x, q) <= bound."""
    if x >= 1 or bound == 0:
        return x
    low, high = x, 1.0
    while True:
        middle = (low + high) / 2
        if middle <= low or middle >= high:
            return low
        if divergence(x, middle) <= bound:
            low = middle
        else:
            high = middle


class Thompson(Rewards):
    """Pull each arm once, then the arm with the largest posterior sample.

    Look at the arm ranked second in a fresh set of samples.
    """

    counts_shows_as_looks = False

    def __init__(self, n_arms, rewards="gaussian", scale=1.0, rng=None):
        super().__init__(n_arms)
        self.rewards, self.scale, self.rng = rewards, scale, rng

    def sample(self, arm):
        rewards = self.observed_rewards(arm)
        n, reward_sum = len(rewards), math.fsum(rewards)
        if not self.is_tried(arm):
            return math.inf
        if self.rewards == "bernoulli":
            return self.rng.beta(1 + reward_sum, 1 + n - reward_sum)
        return self.rng.normal(reward_sum / n, self.scale / math.sqrt(n))

    def pull(self, stage):
        return rank_arms([self.sample(arm) for arm in self.arms])[0]

    def look(self, stage):
        return rank_arms([self.sample(arm) for arm in self.arms])[1]


class TopTwoThompson(Thompson):
    """Thompson sampling whose looks are those of top-two Thompson sampling (Russo 2020)."""

    leader_share = 0.5

    def look(self, stage):
        leader = rank_arms([self.sample(arm) for arm in self.arms])[0]
        if self.rng.random() < self.leader_share:
            return leader
        ranking = []
        for _ in range(100):
            ranking = rank_arms([self.sample(arm) for arm in self.arms])
            if ranking[0] != leader:
                return ranking[0]
        return ranking[1]


class EpsilonGreedy(FTLRobin):
    """ε-greedy with the rate min(1, c K / t) of Auer, Cesa-Bianchi and Fischer (2002)."""

    def __init__(self, n_arms, exploration=5.0, rng=None):
        super().__init__(n_arms)
        self.exploration, self.rng = exploration, rng

    def pull(self, stage):
        leader = super().pull(stage)
        if not self.pull_rewards[leader]:
            return leader
        rate = min(1.0, self.exploration * self.n_arms / stage)
        if self.rng.random() < rate:
            return int(self.rng.random() * self.n_arms)
        return leader


class IMED(Index):
    """IMED of Honda and Takemura (2015), with minus its value as the index."""

    def __init__(self, n_arms, rewards="gaussian", scale=1.0):
        super().__init__(n_arms)
        self.rewards, self.scale = rewards, scale

    def index(self, stage, arm):
        rewards = self.observed_rewards(arm)
        best = max(mean(self.observed_rewards(a)) for a in self.arms if self.pull_rewards[a])
        x = mean(rewards)
        if self.rewards == "gaussian":
            cost = (best - x) ** 2 / (2 * self.scale**2)
        elif x == best:
            cost = 0.0
        else:
            cost = divergence(x, best) if best < 1 else math.inf
        return -len(rewards) * cost - math.log(len(rewards))


class BayesUCB(Index):
    """Bayes-UCB of Kaufmann, Cappé and Garivier (2012) with a flat Gaussian prior."""

    def __init__(self, n_arms, scale=1.0):
        super().__init__(n_arms)
        self.scale = scale

    def index(self, stage, arm):
        rewards = self.observed_rewards(arm)
        quantile = NormalDist().inv_cdf(1 - 1 / stage) if stage > 1 else 0.0
        return mean(rewards) + self.scale * quantile / math.sqrt(len(rewards))


class Kibitzer(Rewards):
    """Pull unseen arms first, then the arm with the largest index.

    Every fourth look goes to the arms in turn, except arms with more observations than turns.
    The other looks go to unseen arms first, then to the arm with the smallest IMED index. The
    divergence in this index gets less weight if looks are rare. If the chosen arm has many
    observations, it is held: all looks that are not in turn go to this arm until it has a tenth more
    observations or the leader changes.
    """

    min_hold_count = 256
    counts_shows_as_looks = False

    def __init__(self, n_arms, b=8.0, beta=1.0, rewards="gaussian", scale=1.0):
        super().__init__(n_arms)
        self.b, self.beta, self.rewards, self.scale = b, beta, rewards, scale
        self.n_looks = 0
        self.hold = None  # (held arm, number of observations that ends the hold, leader)

    def count(self, arm):
        return len(self.observed_rewards(arm))

    def unseen_arms(self):
        return [arm for arm in self.arms if self.count(arm) == 0]

    def index(self, stage, arm):
        n = self.count(arm)
        fair_share = self.n_arms * n + self.b * self.n_looks
        own_share = self.n_arms * (2 * n + self.b * len(self.look_rewards[arm]))
        x = 1 + self.b * stage / min(fair_share, own_share)
        level = math.log(x) - self.beta * math.log(1 + math.log(x))
        if self.rewards == "gaussian":
            return mean(self.observed_rewards(arm)) + self.scale * math.sqrt(2 * level / n)
        return kl_upper_bound(mean(self.observed_rewards(arm)), level / n)

    def pull(self, stage):
        if self.unseen_arms():
            return self.unseen_arms()[0]
        return rank_arms([self.index(stage, arm) for arm in self.arms])[0]

    def leader(self):
        return max(
            (a for a in self.arms if self.count(a)), key=lambda a: mean(self.observed_rewards(a))
        )

    def held_arm(self):
        if self.hold is not None:
            arm, end_count, leader_at_start = self.hold
            if self.count(arm) < end_count and self.leader() == leader_at_start:
                return arm
        return None

    def divergence_from(self, arm, leader):
        x, leader_mean = mean(self.observed_rewards(arm)), mean(self.observed_rewards(leader))
        if self.rewards == "gaussian":
            return (leader_mean - x) ** 2 / (2 * self.scale**2)
        leader_mean = min(leader_mean, 1 - 2**-20)
        return divergence(x, leader_mean) if x < leader_mean else 0.0

    def look(self, stage):
        if (self.n_looks + 1) % 4 == 0:
            n_turns_before, arm = divmod((self.n_looks + 1) // 4 - 1, self.n_arms)
            if self.count(arm) <= n_turns_before + 1:
                return arm
        is_pull_pending = sum(map(len, self.pull_rewards)) + self.n_hidden < stage
        candidates = [
            a for a in self.unseen_arms() if not (is_pull_pending and a == self.pull(stage))
        ]
        if candidates:
            return candidates[-1]
        if self.held_arm() is not None:
            return self.held_arm()
        leader = self.leader()
        other_arms = [arm for arm in self.arms if arm != leader and self.count(arm)]
        if not other_arms:
            return min(arm for arm in self.arms if arm != leader)
        stages_per_look = stage / (self.n_looks + 1)
        rarity_factor = 1 + math.log(1 + stages_per_look / 100)
        return min(
            other_arms,
            key=lambda a: (
                self.count(a) * self.divergence_from(a, leader) / rarity_factor
                + math.log(self.count(a))
            ),
        )

    def update(self, stage, arm, reward, is_look):
        if is_look:
            self.n_looks += 1
            if self.n_looks % 4 != 0 and self.held_arm() is None and arm != self.leader():
                n = self.count(arm)
                self.hold = (
                    arm,
                    n + (max(1, n // 10) if n >= self.min_hold_count else 1),
                    self.leader(),
                )
        super().update(stage, arm, reward, is_look)


class ChangeScan:
    """A change detector of one arm that stores all rewards and computes each sum from scratch."""

    def __init__(self, in_unit_interval):
        self.in_unit_interval = in_unit_interval
        self.rewards = []
        self.origin = 0

    def list_starts(self):
        """Return the places at which the scan tests for a change after the last reward."""
        n, starts, length = len(self.rewards), set(), 1
        while n % length == 0 and length <= n:
            blocks = (1, 2, 3, 4) if length == 1 else (3, 4)
            starts.update(n - q * length for q in blocks)
            length *= 2
        return sorted((start for start in starts if start > self.origin), reverse=True)

    def statistic(self, start):
        before, after = self.rewards[self.origin : start], self.rewards[start:]
        n_before, n_after = len(before), len(after)
        if self.in_unit_interval:
            pooled = mean(before + after)
            return n_before * divergence(mean(before), pooled) + n_after * divergence(
                mean(after), pooled
            )
        difference = mean(after) - mean(before)
        return n_before * n_after / (n_before + n_after) * difference**2 / 2

    def add(self, reward, threshold):
        """Add a reward; return whether it raises an alarm."""
        self.rewards.append(reward)
        best_start, largest_excess = None, 0.0
        for start in self.list_starts():
            n_all, n_after = len(self.rewards) - self.origin, len(self.rewards) - start
            excess = self.statistic(start) - threshold - math.log(n_all / n_after)
            if excess > largest_excess:
                best_start, largest_excess = start, excess
        if best_start is None:
            return False
        self.origin = best_start
        return True


class Lookout(Kibitzer):
    """kibitzer with a change detector for each arm, and looks that watch for hidden changes.

    Each observation is stored with its weight. Later stages with alarms reduce the weight.
    """

    def __init__(self, n_arms, delta=0.1, explore=0.0, rewards="gaussian", scale=1.0):
        super().__init__(n_arms, rewards=rewards, scale=scale)
        self.delta, self.explore = delta, explore
        self.scans = [ChangeScan(rewards != "gaussian") for _ in self.arms]
        self.weighted = [[] for _ in self.arms]  # lists [weight, reward in units of the scale]
        self.last_stages = [0] * n_arms
        self.suspicions = [0.0] * n_arms
        self.looks_at = [0] * n_arms
        self.n_pulls = 0
        self.k = 0.0
        self.watched, self.stay = None, 0
        self.stage = 0

    def count(self, arm):
        return math.fsum(weight for weight, _ in self.weighted[arm])

    def average(self, arm):
        return math.fsum(weight * x for weight, x in self.weighted[arm]) / self.count(arm)

    def index(self, stage, arm):
        n = self.count(arm)
        fair_share = self.n_arms * n + self.b * self.n_looks
        own_share = self.n_arms * (2 * n + self.b * self.looks_at[arm])
        x = 1 + self.b * stage / min(fair_share, own_share)
        level = math.log(x) - math.log(1 + math.log(x))
        if self.rewards == "gaussian":
            return self.average(arm) + math.sqrt(2 * level / n)
        return kl_upper_bound(self.average(arm), level / n)

    def leader(self):
        return max((a for a in self.arms if self.weighted[a]), key=self.average)

    def is_exploring(self, stage):
        shares = [math.floor(s * self.explore) for s in (stage - 1, stage)]
        return stage > self.n_arms and shares[0] < shares[1]

    def is_watch(self):
        period = 4 if self.k == 0 else 2
        return (self.n_looks + 1) % period == 0

    def pull(self, stage):
        return self.look(stage) if self.is_exploring(stage) else super().pull(stage)

    def look(self, stage):
        unseen = [arm for arm in self.arms if not self.weighted[arm]]
        if len(unseen) > 1 or (unseen and self.n_pulls >= stage):
            return unseen[-1]
        leader = self.leader() if len(unseen) < self.n_arms else 0
        others = [arm for arm in self.arms if arm != leader]
        if self.is_watch():
            watched = self.watched
            if watched not in (None, leader) and self.suspicions[watched] > 0 and self.stay <= 30:
                return watched
            return min(others, key=lambda arm: self.last_stages[arm])
        seen = [arm for arm in others if self.weighted[arm]]
        if not seen:
            return others[0]
        rarity = 1 + math.log(1 + stage / (self.n_looks + 1) / 100)

        def imed(arm):
            x, best = self.average(arm), self.average(leader)
            distance = (best - x) ** 2 / 2
            if self.rewards != "gaussian":
                best = min(best, 1 - 2**-20)
                distance = divergence(x, best) if x < best else 0.0
            return self.count(arm) * distance + rarity * math.log(self.count(arm))

        return min(seen, key=imed)

    def suspicion_step(self, x, average, best):
        if self.rewards == "gaussian":
            return (best - average) * (x - (best + average) / 2)
        best, average = (min(max(m, 2**-20), 1 - 2**-20) for m in (best, average))
        return x * math.log(best / average) + (1 - x) * math.log((1 - best) / (1 - average))

    def update(self, stage, arm, reward, is_look):
        x = reward / self.scale
        if stage > self.stage and self.k > 0:
            for observations in self.weighted:
                for observation in observations:
                    observation[0] *= 1 - 1 / max(stage / self.k, 2)
            self.k *= 1 - 1 / stage
        self.stage = max(stage, self.stage)
        self.last_stages[arm] = stage
        is_explored = not is_look and self.is_exploring(stage)
        self.n_pulls += not is_look
        if is_look or is_explored:
            if self.is_watch():
                if arm != self.watched:
                    if self.watched is not None:
                        self.suspicions[self.watched] = 0.0
                    self.watched, self.stay = arm, 0
                self.stay += 1
            self.n_looks += 1
            self.looks_at[arm] += 1
            if self.weighted[arm] and self.average(arm) < self.average(self.leader()):
                step = self.suspicion_step(x, self.average(arm), self.average(self.leader()))
                self.suspicions[arm] = max(0.0, self.suspicions[arm] + step)
        threshold = max(4.0, math.log(100 * self.n_arms / self.delta / (1 + self.k)))
        if self.scans[arm].add(x, threshold):
            self.k += 1
            self.weighted[arm] = [[1.0, x] for x in self.scans[arm].rewards[self.scans[arm].origin :]]
            self.suspicions[arm] = 0.0
        else:
            self.weighted[arm].append([1.0, x])


class Forgetful(Rewards):
    """Pull the lowest arm without weight, then the arm with the largest index; look in turn.

    `weight(age)` is the weight of an observation from `age` stages ago; the age is at least 1.
    """

    def __init__(self, n_arms, exploration=2.0, rewards="gaussian", scale=1.0):
        super().__init__(n_arms)
        self.exploration, self.rewards, self.scale = exploration, rewards, scale
        self.observations = []  # (stage, arm, reward)
        self.n_looks = 0

    def update(self, stage, arm, reward, is_look):
        self.observations.append((stage, arm, reward))
        self.n_looks += is_look

    def look(self, stage):
        return self.n_looks % self.n_arms

    def weights(self, stage, arm):
        # after an observation of a stage, all earlier stages are one stage older
        now = max([stage, *(s + 1 for s, _, _ in self.observations)])
        return [(self.weight(now - s), x) for s, a, x in self.observations if a == arm]

    def pull(self, stage):
        indices = []
        for arm in self.arms:
            n = math.fsum(weight for weight, _ in self.weights(stage, arm))
            if n == 0:
                return arm
            average = math.fsum(weight * x for weight, x in self.weights(stage, arm)) / n
            level = self.exploration / 2 * math.log(self.clock(stage))
            if self.rewards == "gaussian":
                indices.append(average + self.scale * math.sqrt(2 * level / n))
            else:
                indices.append(kl_upper_bound(average, level / n))
        return rank_arms(indices)[0]


class SWUCB(Forgetful):
    """UCB that learns from the last `window` stages."""

    def __init__(self, n_arms, window, **options):
        super().__init__(n_arms, **options)
        self.window = window

    def weight(self, age):
        return int(age <= self.window)

    def clock(self, stage):
        return min(stage, self.window)


class DUCB(Forgetful):
    """UCB whose observations lose weight at each stage."""

    def __init__(self, n_arms, discount, **options):
        super().__init__(n_arms, **options)
        self.discount = discount

    def weight(self, age):
        return self.discount ** (age - 1)

    def clock(self, stage):
        weights = [weight for arm in self.arms for weight, _ in self.weights(stage, arm)]
        return max(1.0, math.fsum(weights))


class GLRUCB(Rewards):
    """KL-UCB that restarts an arm after a change of its mean; it pulls and looks in turn."""

    def __init__(self, n_arms, horizon, a=0.05, rewards="gaussian", scale=1.0):
        super().__init__(n_arms)
        self.horizon, self.a, self.rewards, self.scale = horizon, a, rewards, scale
        self.scans = [ChangeScan(rewards != "gaussian") for _ in self.arms]
        self.restarts = [0] * n_arms
        self.n_looks = self.n_restarts = 0

    def since_restart(self, arm):
        return self.scans[arm].rewards[self.scans[arm].origin :]

    def due_arm(self, stage):
        rate = self.a * math.sqrt(
            (self.n_restarts + 1) * self.n_arms * math.log(self.horizon) / self.horizon
        )
        if rate * self.horizon <= self.n_arms:
            return None
        block = math.ceil(self.n_arms / min(1.0, rate))
        place = (stage - max(self.restarts) - 1) % block
        return place if place < self.n_arms else None

    def index(self, stage, arm):
        rewards = self.since_restart(arm)
        level = math.log(max(1, stage - self.restarts[arm]))
        if self.rewards == "gaussian":  # in units of the scale
            return mean(rewards) + math.sqrt(2 * level / len(rewards))
        return kl_upper_bound(mean(rewards), level / len(rewards))

    def pull(self, stage):
        if self.due_arm(stage) is not None:
            return self.due_arm(stage)
        for arm in self.arms:
            if not self.since_restart(arm):
                return arm
        return rank_arms([self.index(stage, arm) for arm in self.arms])[0]

    def look(self, stage):
        return self.n_looks % self.n_arms

    def update(self, stage, arm, reward, is_look):
        self.n_looks += is_look
        scan = self.scans[arm]
        scan.rewards.append(reward / self.scale)
        for start in scan.list_starts():
            n = len(scan.rewards) - scan.origin
            if scan.statistic(start) > 1.5 * math.log(n) + 0.5 * math.log(self.horizon):
                scan.origin = len(scan.rewards)
                self.restarts[arm] = stage
                self.n_restarts += 1
                break


class Scout(Rewards):
    """Pull arms that show unseen arms first, then the arm with the lowest price per information.

    The policy knows the matrix `shows` or learns it. The default of c is 1/2, or 1 if a pull may hide
    its own reward (known matrix) or has hidden its own reward (learned matrix).
    """

    counts_shows_as_looks = False

    def __init__(self, n_arms, shows=None, c=None):
        super().__init__(n_arms)
        self.known_shows, self.c = shows, c
        self.n_shown = [[0] * n_arms for _ in self.arms]
        self.n_pulls = [0] * n_arms

    def update(self, stage, arm, reward, is_look):
        super().update(stage, arm, reward, is_look)
        if not is_look:
            self.n_pulls[arm] += 1
            self.n_shown[arm][arm] += 1

    def show(self, stage, pulled, arm, reward):
        super().show(stage, pulled, arm, reward)
        self.n_shown[pulled][arm] += 1

    def hide(self, stage, arm):
        super().hide(stage, arm)
        self.n_pulls[arm] += 1

    def shows(self, pulled, arm):
        if self.known_shows is not None:
            return self.known_shows[pulled][arm]
        prior = 1.0 if pulled == arm else 0.5  # the probability of a show before any pull
        weight = 1 / 8  # the prior weighs as much as an eighth of a pull
        return (self.n_shown[pulled][arm] + weight * prior) / (self.n_pulls[pulled] + weight)

    def constant(self):
        if self.c is not None:
            return self.c
        if self.known_shows is not None:
            return 1.0 if any(self.known_shows[arm][arm] < 1 for arm in self.arms) else 0.5
        return 1.0 if self.n_hidden else 0.5

    def leader(self):
        means = [
            mean(self.observed_rewards(a)) if self.observed_rewards(a) else -math.inf
            for a in self.arms
        ]
        return rank_arms(means)[0]

    def pull(self, stage):
        unseen_arms = [arm for arm in self.arms if not self.observed_rewards(arm)]
        if unseen_arms:
            return max(
                self.arms,
                key=lambda j: (
                    round(math.fsum(self.shows(j, k) for k in unseen_arms), 12),
                    mean(self.observed_rewards(j)) if self.observed_rewards(j) else -math.inf,
                    -j,
                ),
            )
        prices = self.prices(stage)
        if min(prices) == math.inf:
            return self.leader()
        return min(self.arms, key=lambda arm: prices[arm])

    def prices(self, stage):
        best = self.leader()
        means = [mean(self.observed_rewards(arm)) for arm in self.arms]
        counts = [len(self.observed_rewards(arm)) for arm in self.arms]
        ignorance, later, weights = 0.0, 0.0, [0.0] * self.n_arms
        for k in self.arms:
            if k == best:
                continue
            s = math.sqrt(1 / counts[k] + 1 / counts[best])
            z = (means[best] - means[k]) / s
            density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
            ignorance += self.constant() * s * density
            weights[k] = density / s / (counts[k] * (counts[k] + 1))
            weights[best] += density / s / (counts[best] * (counts[best] + 1))
            later += weights[k] / (s**2 * stage)
        prices = []
        for j in self.arms:
            information = math.fsum(self.shows(j, m) * weights[m] for m in self.arms)
            if j == best:
                information += later
            gap = means[best] - means[j]
            prices.append((ignorance + gap) / information if information > 0 else math.inf)
        return prices

    def look(self, stage):
        unseen_arms = [arm for arm in self.arms if not self.observed_rewards(arm)]
        if unseen_arms:
            return unseen_arms[-1]
        best = self.leader()

        def imed(arm):
            rewards = self.observed_rewards(arm)
            gap = mean(self.observed_rewards(best)) - mean(rewards)
            return len(rewards) * gap**2 / 2 + math.log(len(rewards))

        return min((arm for arm in self.arms if arm != best), key=imed)


class ScoutKibitzer(Scout):
    """Explore at the stages at which kibitzer explores, and pull the most valuable arm.

    The index counts the expected future shows of the leader.
    """

    def index(self, stage, arm):
        leader, n = self.leader(), len(self.observed_rewards(arm))
        fair_share = self.n_arms * n + 8 * sum(map(len, self.look_rewards))
        own_share = self.n_arms * (2 * n + 8 * len(self.look_rewards[arm]))
        share = min(fair_share, own_share)
        if arm != leader and (self.known_shows is not None or self.n_pulls[leader] > 0):
            share += 8 * self.n_arms * self.shows(leader, arm) * stage
        x = 1 + 8 * stage / share
        level = math.log(x) - math.log(1 + math.log(x))
        return mean(self.observed_rewards(arm)) + math.sqrt(2 * level / n)

    def pull(self, stage):
        if any(not self.observed_rewards(arm) for arm in self.arms):
            return super().pull(stage)
        leader = self.leader()
        explored = rank_arms([self.index(stage, arm) for arm in self.arms])[0]
        if explored == leader:
            return leader
        means = [mean(self.observed_rewards(arm)) for arm in self.arms]
        gaps = [means[leader] - arm_mean for arm_mean in means]
        limit = self.index(stage, leader)
        wanted = [k for k in self.arms if k != leader and self.index(4 * stage, k) >= limit]

        def value(arm):
            shown = math.fsum(self.shows(arm, k) * gaps[k] for k in wanted)
            return shown / max(gaps[arm], 1e-12)

        others = [
            arm
            for arm in self.arms
            if arm not in {leader, explored} and self.shows(arm, explored) >= 0.5
        ]
        best = max(others, key=value, default=explored)
        return best if value(best) > 1.5 * value(explored) else explored


class MaxN:
    """Pull the arm with the largest mean among the arms that show the choice of another policy."""

    def __init__(self, policy, shows):
        self.policy, self.known_shows = policy, shows
        self.look, self.update = policy.look, policy.update
        self.show, self.hide = policy.show, policy.hide

    def pull(self, stage):
        chosen, shows = self.policy.pull(stage), self.known_shows

        def value(arm):
            rewards = self.policy.observed_rewards(arm)
            return (mean(rewards) if rewards else -math.inf, arm == chosen, -arm)

        return max(
            (
                arm
                for arm in self.policy.arms
                if arm == chosen or 0 < shows[arm][chosen] >= shows[chosen][chosen]
            ),
            key=value,
        )


def remaining_arms(rewards, squared_width):
    """Return the remaining arms of the dict `rewards`, which maps each arm to its rewards.

    `squared_width(s)` is the squared half-width of the confidence interval of an arm with s
    observations. If `squared_width` is zero or negative for an observed arm, no arm is dropped.
    """
    observed_rewards = {arm: values for arm, values in rewards.items() if values}
    squared_widths = {arm: squared_width(len(values)) for arm, values in observed_rewards.items()}
    if not observed_rewards or min(squared_widths.values()) <= 0:
        return set(rewards)
    upper_bounds = {
        arm: mean(values) + math.sqrt(squared_widths[arm]) for arm, values in observed_rewards.items()
    }
    lower_bounds = {
        arm: mean(values) - math.sqrt(squared_widths[arm]) for arm, values in observed_rewards.items()
    }
    return {
        arm
        for arm in rewards
        if arm not in observed_rewards or upper_bounds[arm] >= max(lower_bounds.values())
    }


class Elimination(Rewards):
    """The common part of ETC and Improved UCB, which look at the least observed remaining arm."""

    def __init__(self, n_arms):
        super().__init__(n_arms)
        self.in_play = set(self.arms)

    def least_observed_arm(self, pulled_arm=None):
        def count(arm):
            return len(self.observed_rewards(arm)) + (arm == pulled_arm)

        return min(sorted(self.in_play), key=count)

    def lowest_count(self):
        return len(self.observed_rewards(self.least_observed_arm()))

    def unpulled_arms(self):
        return [arm for arm in self.arms if not self.pull_rewards[arm]]

    def rewards_in_play(self):
        return {arm: self.observed_rewards(arm) for arm in self.in_play}

    def look(self, stage):
        return self.least_observed_arm(pulled_arm=self.pull(stage))


class ETC(Elimination):
    """ETC (Algorithm 3): after each full round, increment the round number s, then test (D30)."""

    def __init__(self, n_arms, alpha=1.0, horizon=1000):
        super().__init__(n_arms)
        self.alpha, self.horizon = alpha, horizon
        self.n_rounds = 0

    def pull(self, stage):
        return [*self.unpulled_arms(), self.least_observed_arm()][0]

    def update(self, stage, arm, reward, is_look):
        super().update(stage, arm, reward, is_look)
        if self.lowest_count() > self.n_rounds and not self.unpulled_arms():
            self.n_rounds = self.lowest_count()
            self.in_play = remaining_arms(
                self.rewards_in_play(), lambda s: 2 * self.alpha / s * math.log(self.horizon / s)
            )


class ImprovedUCB(Elimination):
    """Improved UCB of Auer and Ortner (2010); the guessed gaps are in units of the scale."""

    def __init__(self, n_arms, scale=1.0, horizon=1000):
        super().__init__(n_arms)
        self.scale, self.horizon = scale, horizon
        self.round = 0

    def is_over(self):
        last_round = math.floor(math.log2(self.horizon / math.e) / 2) if self.horizon > math.e else 0
        return self.round > last_round or len(self.in_play) == 1

    def log_term(self):
        return math.log(self.horizon * 2.0 ** (-2 * self.round))

    def target_count(self):
        gap = self.scale * 2.0**-self.round
        return math.ceil(8 * self.scale**2 * self.log_term() / gap**2)

    def pull(self, stage):
        if self.unpulled_arms():
            return self.unpulled_arms()[0]
        if not self.is_over() and self.lowest_count() < self.target_count():
            return self.least_observed_arm()
        return max(sorted(self.in_play), key=lambda arm: mean(self.observed_rewards(arm)))

    def update(self, stage, arm, reward, is_look):
        super().update(stage, arm, reward, is_look)
        if self.unpulled_arms():
            return
        while (
            not self.is_over()
            and self.target_count() > 0
            and self.lowest_count() >= self.target_count()
        ):
            self.in_play = remaining_arms(
                self.rewards_in_play(), lambda s: 2 * self.scale**2 * self.log_term() / s
            )
            self.round += 1


class UCB2(Rewards):
    """UCB2 of Auer, Cesa-Bianchi and Fischer (2002)."""

    def __init__(self, n_arms, alpha=0.001, scale=1.0):
        super().__init__(n_arms)
        self.alpha, self.scale = alpha, scale
        self.burst = None  # (arm, number of observations at which the burst ends)

    def ranking(self, stage):
        indices = []
        for arm in self.arms:
            index = math.inf
            if self.pull_rewards[arm]:
                rewards = self.observed_rewards(arm)
                tau = level_bounds(self.alpha, len(rewards))[0]
                log_ratio = math.log(math.e * max(stage, tau) / tau)
                index = mean(rewards) + math.sqrt(
                    2 * self.scale**2 * (1 + self.alpha) * log_ratio / tau
                )
            indices.append(index)
        return rank_arms(indices)

    def is_in_burst(self):
        return self.burst is not None and len(self.observed_rewards(self.burst[0])) < self.burst[1]

    def pull(self, stage):
        return self.burst[0] if self.is_in_burst() else self.ranking(stage)[0]

    def look(self, stage):
        return next(arm for arm in self.ranking(stage) if arm != self.pull(stage))

    def update(self, stage, arm, reward, is_look):
        if not is_look and not self.is_in_burst():
            self.burst = None
            if self.pull_rewards[arm]:
                self.burst = arm, level_bounds(self.alpha, len(self.observed_rewards(arm)))[1]
        super().update(stage, arm, reward, is_look)


@cache
def level_bounds(alpha, count):
    """Return tau(r) and tau(r + 1) for the largest level r with tau(r) <= count.

    tau(r) = ceil((1 + alpha)^r) is the number of observations at which level r begins.
    """
    with localcontext() as context:
        context.prec = 50
        power, tau = Decimal(1), 1
        while True:
            power *= Decimal(1 + alpha)
            next_bound = math.ceil(power)
            if next_bound > count:
                return tau, next_bound
            tau = next_bound


class ETCOCUCB:
    """ETC-OCUCB (Algorithm 2) and its variants of section 5."""

    def __init__(
        self,
        n_arms,
        p=2.0,
        C=10.0,
        alpha=1.0,
        rho=0.5,
        eta=2.0,
        restart=False,
        check="rounds",
        all_info=False,
    ):
        self.n_arms = n_arms
        self.p, self.C, self.alpha, self.rho, self.eta = p, C, alpha, rho, eta
        self.restart, self.check, self.all_info = restart, check, all_info
        self.epoch, self.epoch_end, self.restart_stage = 0, epoch_length(p, 0), 0
        self.start(set(range(n_arms)))

    def start(self, allowed_arms):
        """Start OCUCB-n on the arms `allowed_arms`, and ETC on all arms."""
        all_arms = range(self.n_arms)
        self.allowed_arms = allowed_arms
        self.ocucb_rewards = Rewards(self.n_arms)  # the rewards that OCUCB-n received
        self.in_play = set(all_arms)
        self.etc_rewards = [[] for _ in all_arms]
        self.look_arms = []  # the arms of all looks since ETC started
        self.n_looks_since_test = 0

    def ranking(self, stage):
        arms = sorted(self.allowed_arms)
        counts = [len(self.ocucb_rewards.observed_rewards(arm)) for arm in arms]
        indices = []
        for n, arm in enumerate(arms):
            if self.ocucb_rewards.pull_rewards[arm]:
                average = mean(self.ocucb_rewards.observed_rewards(arm))
                clock = stage - self.restart_stage
                indices.append(ocucb_index(clock, n, counts, average, self.eta, self.rho))
            else:
                indices.append(math.inf)
        return [arms[n] for n in rank_arms(indices)]

    def pull(self, stage):
        return self.ranking(stage)[0]

    def look(self, stage):
        """Return the remaining arm that follows the last arm looked at, in turn."""
        last_arm = self.look_arms[-1] if self.look_arms else -1
        return min(self.in_play, key=lambda arm: (arm - last_arm - 1) % self.n_arms)

    def test(self):
        log_d = self.p ** (self.epoch + 1) * math.log(self.p)
        log_horizon = (1 + 1 / self.p) * log_d + math.log(log_d)
        self.in_play = remaining_arms(
            {arm: self.etc_rewards[arm] for arm in self.in_play},
            lambda s: 2 * self.alpha / s * (log_horizon - math.log(s)),
        )

    def show(self, stage, pulled, arm, reward):
        self.update(stage, arm, reward, True)

    def update(self, stage, arm, reward, is_look):
        if self.all_info or not is_look:
            self.ocucb_rewards.update(stage, arm, reward, is_look)
        if self.all_info or is_look:
            self.etc_rewards[arm].append(reward)
        if is_look:
            self.look_arms.append(arm)
            self.n_looks_since_test += 1
            if self.check == "rounds" and self.n_looks_since_test >= self.C * len(self.in_play):
                self.n_looks_since_test = 0
                self.test()
            return
        if self.check == "doubling" and stage in {2**k for k in range(64)}:
            self.test()
        if stage == self.epoch_end:
            self.epoch += 1
            self.epoch_end += epoch_length(self.p, self.epoch)
            if self.restart:
                self.restart_stage = stage
                self.start(self.in_play)
            else:
                self.allowed_arms = set(self.in_play)


@cache
def epoch_length(p, m):
    """Return ceil(p^(p^m)), the length of epoch m."""
    with localcontext() as context:
        context.prec = 60
        exponent = Decimal(p) ** m
        if exponent * Decimal(p).ln() > 60:
            return 2**62
        return math.ceil((Decimal(p) ** exponent).quantize(Decimal("1e-30")))


# ---------------------------------------------------------------------------------------- model


def gaussian(means, sd=1.0):
    return lambda arm, rng: rng.normal(means[arm], sd)


def bernoulli(means):
    return lambda arm, rng: float(rng.random() < means[arm])


def named_weights(name, gaps):
    """Return a named distribution of a passive observer's looks (sections 3.1 and 5, D31)."""
    power = {"uniform": 0, "optimal": 1, "suboptimal": 2}[name]
    if power == 0:
        return [1 / len(gaps)] * len(gaps)
    shares = [gap**-power if gap > 0 else 0.0 for gap in gaps]
    return [share / math.fsum(shares) for share in shares]


def play(
    policy,
    draw,
    means,
    horizon,
    rng,
    *,
    observer="bandit",
    rate=0.0,
    every=None,
    first=None,
    weights=None,
    looks=1,
    paid=False,
):
    """Play one run; return (regret, n_pulls, n_looks).

    `rate` is a number or a function of the stage. Periodic arrivals have the period `every`, and
    `first` is the stage of the first arrival. `weights` is the distribution of a passive observer's
    looks.
    """
    arms = range(len(means))
    gaps = [max(means) - m for m in means]
    n_pulls, n_looks = [0] * len(means), [0] * len(means)
    for stage in range(1, horizon + 1):
        if every is not None:
            first_stage = every if first is None else first
            has_arrived = stage >= first_stage and (stage - first_stage) % every == 0
        else:
            has_arrived = rng.random() < (rate(stage) if callable(rate) else rate)
        arm = policy.pull(stage)
        look = policy.look(stage) if observer == "active" and has_arrived else None
        n_pulls[arm] += 1
        policy.update(stage, arm, draw(arm, rng), False)
        if observer == "full":
            for other_arm in arms:
                if other_arm != arm:
                    n_looks[other_arm] += 1
                    policy.update(stage, other_arm, draw(other_arm, rng), True)
        if observer in {"passive", "active"} and has_arrived:
            for nth in range(looks):
                if observer == "passive":
                    look = int(rng.choice(len(means), p=weights))
                elif nth > 0:
                    look = policy.look(stage)
                n_looks[look] += 1
                policy.update(stage, look, draw(look, rng), True)
    regret = math.fsum(gap * n for gap, n in zip(gaps, n_pulls, strict=True))
    if paid:
        regret += math.fsum(gap * n for gap, n in zip(gaps, n_looks, strict=True))
    return regret, n_pulls, n_looks


def play_changing(policy, means, horizon, rngs, *, observer="bandit", rate=0.0, looks=1, paid=False):
    """Play one run with Gaussian rewards of variance 1 whose means change with time.

    `means` is a function that maps a stage to the means of all arms. A passive observer looks with
    probabilities proportional to 1/gap. `rngs` are the generators of rewards and of looks. Return the
    dynamic regret after each stage, n_pulls and n_looks.
    """
    reward_rng, look_rng = rngs

    def draw_arrival(stage):
        wait = look_rng.standard_exponential() * (-1 / math.log1p(-rate)) if rate > 0 else math.inf
        return stage + 1 + int(wait) if rate > 0 else math.inf

    n_arms = len(means(1))
    n_pulls, n_looks, costs, regrets = [0] * n_arms, [0] * n_arms, [], []
    arrival = draw_arrival(0)
    for stage in range(1, horizon + 1):
        current = means(stage)
        gaps = [max(current) - m for m in current]
        arm = policy.pull(stage)
        look = policy.look(stage) if observer == "active" and stage == arrival else None
        n_pulls[arm] += 1
        costs.append(gaps[arm])
        policy.update(stage, arm, current[arm] + reward_rng.standard_normal(), False)
        if stage == arrival:
            for nth in range(looks):
                if observer == "passive":
                    u, shares = look_rng.random(), named_weights("optimal", gaps)
                    look = sum(u >= math.fsum(shares[: k + 1]) for k in range(n_arms - 1))
                elif nth > 0:
                    look = policy.look(stage)
                n_looks[look] += 1
                costs.append(gaps[look] if paid else 0.0)
                policy.update(stage, look, current[look] + look_rng.standard_normal(), True)
            arrival = draw_arrival(stage)
        regrets.append(math.fsum(costs))
    return regrets, n_pulls, n_looks
