"""The model and the policies again, in plain Python: slow, obvious, the oracle of the tests.

Nothing here imports `kibitz`, so that the two can only agree by both being right. Policies keep every
reward that they were told and compute everything anew for each decision. A policy is asked
`pull(stage)` and `observe(stage)` and told `update(stage, arm, reward, free)`; stages count from 1.
Ties go to the lowest arm.
"""

import math
from decimal import Decimal, localcontext
from functools import cache

# ------------------------------------------------------------------------------------- policies


def mean(rewards):
    return math.fsum(rewards) / len(rewards)


def ranked(values):
    """Return the arms from the largest value to the smallest; `sorted` is stable."""
    return sorted(range(len(values)), key=lambda arm: -values[arm])


class Rewards:
    """All rewards that a policy was told, pulls and looks apart."""

    def __init__(self, n_arms):
        self.arms = range(n_arms)
        self.n_arms = n_arms
        self.pulled = [[] for _ in self.arms]
        self.looked = [[] for _ in self.arms]

    def update(self, stage, arm, reward, free):
        (self.looked if free else self.pulled)[arm].append(reward)

    def seen(self, arm):
        return self.pulled[arm] + self.looked[arm]


class Index(Rewards):
    """Pull each arm once, then the arm of largest index; look at the runner-up."""

    ignore_looks = False

    def seen(self, arm):
        return self.pulled[arm] if self.ignore_looks else super().seen(arm)

    def ranking(self, stage):
        return ranked([self.index(stage, arm) if self.pulled[arm] else math.inf for arm in self.arms])

    def pull(self, stage):
        return self.ranking(stage)[0]

    def observe(self, stage):
        return self.ranking(stage)[1]


class FTL(Index):
    """Section 2.1.1."""

    def index(self, stage, arm):
        return mean(self.seen(arm))


class FTLRobin(FTL):
    """Section 2.2: look at the arms in turn."""

    def observe(self, stage):
        return sum(map(len, self.looked)) % self.n_arms


class UCB(Index):
    """Algorithm 1; section 4.2.1 for the look (UCB1-Double)."""

    def __init__(self, n_arms, exploration=6.0, ignore_looks=False):
        super().__init__(n_arms)
        self.exploration, self.ignore_looks = exploration, ignore_looks

    def index(self, stage, arm):
        rewards = self.seen(arm)
        return mean(rewards) + math.sqrt(self.exploration * math.log(stage) / len(rewards))


class UCBSecond(UCB):
    """Section 5: another UCB, which knows the looks alone, chooses among the arms not pulled."""

    def observe(self, stage):
        pulled = self.pull(stage)
        clock = 1 + sum(map(len, self.looked))
        best, most = None, -math.inf
        for arm in self.arms:
            looks = self.looked[arm]
            value = math.inf
            if looks:
                value = mean(looks) + math.sqrt(self.exploration * math.log(clock) / len(looks))
            if arm != pulled and (best is None or value > most):
                best, most = arm, value
        return best


def ocucb_index(stage, arm, counts, average, eta, rho):
    """Section 4.2, with the sum over j (D23)."""
    n = counts[arm]
    total = math.fsum(min(n, m**rho * n ** (1 - rho)) for m in counts if m > 0)
    b = max(math.e, math.log(stage), stage * math.log(stage) / total)
    return average + math.sqrt(2 * eta * math.log(b) / n)


class OCUCB(Index):
    def __init__(self, n_arms, eta=2.0, rho=0.5, ignore_looks=False):
        super().__init__(n_arms)
        self.eta, self.rho, self.ignore_looks = eta, rho, ignore_looks

    def index(self, stage, arm):
        counts = [len(self.seen(other)) for other in self.arms]
        return ocucb_index(stage, arm, counts, mean(self.seen(arm)), self.eta, self.rho)


class MOSS(Index):
    """Audibert and Bubeck (2009)."""

    def __init__(self, n_arms, exploration=4.0, horizon=1000):
        super().__init__(n_arms)
        self.exploration, self.horizon = exploration, horizon

    def index(self, stage, arm):
        return self.moss(self.horizon, arm)

    def moss(self, horizon, arm):
        rewards = self.seen(arm)
        ratio = horizon / (self.n_arms * len(rewards))
        log = math.log(ratio) if ratio > 1 else 0.0
        return mean(rewards) + math.sqrt(self.exploration * log / len(rewards))


class MOSSAnytime(MOSS):
    """Degenne and Perchet (2016)."""

    def __init__(self, n_arms, exploration=4.7):
        super().__init__(n_arms, exploration, None)

    def index(self, stage, arm):
        return self.moss(stage, arm)


class KLUCB(Index):
    """Garivier and Cappé (2011); the Bernoulli index by bisection."""

    def __init__(self, n_arms, rewards="gaussian", scale=1.0, c=0.0):
        super().__init__(n_arms)
        self.rewards, self.scale, self.c = rewards, scale, c

    def index(self, stage, arm):
        rewards = self.seen(arm)
        level = math.log(stage)
        if level > 1:
            level += self.c * math.log(level)
        if self.rewards == "gaussian":
            return mean(rewards) + self.scale * math.sqrt(2 * level / len(rewards))
        return largest_within(mean(rewards), level / len(rewards))


def divergence(x, q):
    """Return kl(x, q) of Bernoulli laws, for 0 < q < 1."""
    first = x * (math.log(x) - math.log(q)) if x > 0 else 0.0
    second = (1 - x) * (math.log1p(-x) - math.log1p(-q)) if x < 1 else 0.0
    return first + second


def largest_within(x, bound):
    """Return max {q >= x: kl(x, q) <= bound}."""
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
    """Pull each arm once, then the largest sample; look at the runner-up of another sample."""

    def __init__(self, n_arms, rewards="gaussian", scale=1.0, rng=None):
        super().__init__(n_arms)
        self.rewards, self.scale, self.rng = rewards, scale, rng

    def sample(self, arm):
        rewards = self.seen(arm)
        n, total = len(rewards), math.fsum(rewards)
        if not self.pulled[arm]:
            return math.inf
        if self.rewards == "bernoulli":
            return self.rng.beta(1 + total, 1 + n - total)
        return self.rng.normal(total / n, self.scale / math.sqrt(n))

    def pull(self, stage):
        return ranked([self.sample(arm) for arm in self.arms])[0]

    def observe(self, stage):
        return ranked([self.sample(arm) for arm in self.arms])[1]


class Kibitzer(Rewards):
    """Pull what is unseen, then the largest index; look in turn, at what is unseen, or by IMED.

    The rarer looks are, the less the divergence counts in IMED.
    Every fourth look is for the arms in turn, if they were not seen more often than they had turns.
    The arm that IMED chose is held until it was seen a tenth more often or the leader is another,
    if it was seen often before.
    """

    long = 256

    def __init__(self, n_arms, b=8.0, beta=1.0, rewards="gaussian", scale=1.0):
        super().__init__(n_arms)
        self.b, self.beta, self.rewards, self.scale = b, beta, rewards, scale
        self.n_looks = 0
        self.hold = None  # an arm, its count when it is given up, and the leader

    def count(self, arm):
        return len(self.seen(arm))

    def unseen(self):
        return [arm for arm in self.arms if self.count(arm) == 0]

    def index(self, stage, arm):
        n = self.count(arm)
        x = 1 + self.b * stage / (self.n_arms * n + self.b * self.n_looks)
        level = math.log(x) - self.beta * math.log(1 + math.log(x))
        if self.rewards == "gaussian":
            return mean(self.seen(arm)) + self.scale * math.sqrt(2 * level / n)
        return largest_within(mean(self.seen(arm)), level / n)

    def pull(self, stage):
        if self.unseen():
            return self.unseen()[0]
        return ranked([self.index(stage, arm) for arm in self.arms])[0]

    def leader(self):
        return max((a for a in self.arms if self.count(a)), key=lambda a: mean(self.seen(a)))

    def held(self):
        if self.hold is not None:
            arm, until, leader = self.hold
            if self.count(arm) < until and self.leader() == leader:
                return arm
        return None

    def distance(self, arm, leader):
        x, best = mean(self.seen(arm)), mean(self.seen(leader))
        if self.rewards == "gaussian":
            return (best - x) ** 2 / (2 * self.scale**2)
        best = min(best, 1 - 2**-20)
        return divergence(x, best) if x < best else 0.0

    def observe(self, stage):
        if (self.n_looks + 1) % 4 == 0:
            turns_before, arm = divmod((self.n_looks + 1) // 4 - 1, self.n_arms)
            if self.count(arm) <= turns_before + 1:
                return arm
        to_be_pulled = sum(map(len, self.pulled)) < stage
        never = [a for a in self.unseen() if not (to_be_pulled and a == self.pull(stage))]
        if never:
            return never[-1]
        if self.held() is not None:
            return self.held()
        leader = self.leader()
        others = [arm for arm in self.arms if arm != leader and self.count(arm)]
        if not others:
            return min(arm for arm in self.arms if arm != leader)
        per_look = stage / (self.n_looks + 1)
        rare = 1 + math.log(1 + per_look / 100)
        return min(
            others,
            key=lambda a: self.count(a) * self.distance(a, leader) / rare + math.log(self.count(a)),
        )

    def update(self, stage, arm, reward, free):
        if free:
            self.n_looks += 1
            if self.n_looks % 4 != 0 and self.held() is None and arm != self.leader():
                n = self.count(arm)
                self.hold = arm, n + (max(1, n // 10) if n >= self.long else 1), self.leader()
        super().update(stage, arm, reward, free)


def survivors(rewards, squared_width):
    """Return the arms left of those in `rewards`: {arm: rewards}.

    `squared_width(s)` is that of an arm seen s times. There is no test once it is not positive.
    """
    seen = {arm: values for arm, values in rewards.items() if values}
    squares = {arm: squared_width(len(values)) for arm, values in seen.items()}
    if not seen or min(squares.values()) <= 0:
        return set(rewards)
    upper = {arm: mean(values) + math.sqrt(squares[arm]) for arm, values in seen.items()}
    lower = {arm: mean(values) - math.sqrt(squares[arm]) for arm, values in seen.items()}
    return {arm for arm in rewards if arm not in seen or upper[arm] >= max(lower.values())}


class Elimination(Rewards):
    """What ETC and Improved UCB share: the least seen arm in play, before and after a pull."""

    def __init__(self, n_arms):
        super().__init__(n_arms)
        self.in_play = set(self.arms)

    def least_seen(self, pulled=None):
        def count(arm):
            return len(self.seen(arm)) + (arm == pulled)

        return min(sorted(self.in_play), key=count)

    def fewest(self):
        return len(self.seen(self.least_seen()))

    def never_pulled(self):
        return [arm for arm in self.arms if not self.pulled[arm]]

    def known(self):
        return {arm: self.seen(arm) for arm in self.in_play}

    def observe(self, stage):
        return self.least_seen(pulled=self.pull(stage))


class ETC(Elimination):
    """Algorithm 3: a test after each full round; s is counted before the test (D30)."""

    def __init__(self, n_arms, alpha=1.0, horizon=1000):
        super().__init__(n_arms)
        self.alpha, self.horizon = alpha, horizon
        self.rounds = 0

    def pull(self, stage):
        return [*self.never_pulled(), self.least_seen()][0]

    def update(self, stage, arm, reward, free):
        super().update(stage, arm, reward, free)
        if self.fewest() > self.rounds and not self.never_pulled():
            self.rounds = self.fewest()
            self.in_play = survivors(
                self.known(), lambda s: 2 * self.alpha / s * math.log(self.horizon / s)
            )


class ImprovedUCB(Elimination):
    """Auer and Ortner (2010), guessing gaps in units of the scale."""

    def __init__(self, n_arms, scale=1.0, horizon=1000):
        super().__init__(n_arms)
        self.scale, self.horizon = scale, horizon
        self.round = 0

    def over(self):
        last = math.floor(math.log2(self.horizon / math.e) / 2) if self.horizon > math.e else 0
        return self.round > last or len(self.in_play) == 1

    def log(self):
        return math.log(self.horizon * 2.0 ** (-2 * self.round))

    def goal(self):
        gap = self.scale * 2.0**-self.round
        return math.ceil(8 * self.scale**2 * self.log() / gap**2)

    def pull(self, stage):
        if self.never_pulled():
            return self.never_pulled()[0]
        if not self.over() and self.fewest() < self.goal():
            return self.least_seen()
        return max(sorted(self.in_play), key=lambda arm: mean(self.seen(arm)))

    def update(self, stage, arm, reward, free):
        super().update(stage, arm, reward, free)
        if self.never_pulled():
            return
        while not self.over() and self.goal() > 0 and self.fewest() >= self.goal():
            self.in_play = survivors(self.known(), lambda s: 2 * self.scale**2 * self.log() / s)
            self.round += 1


class UCB2(Rewards):
    """Auer, Cesa-Bianchi and Fischer (2002)."""

    def __init__(self, n_arms, alpha=0.001, scale=1.0):
        super().__init__(n_arms)
        self.alpha, self.scale = alpha, scale
        self.burst = None  # an arm, and how often it is to be seen

    def ranking(self, stage):
        values = []
        for arm in self.arms:
            value = math.inf
            if self.pulled[arm]:
                rewards = self.seen(arm)
                tau = level_begins(self.alpha, len(rewards))[0]
                log = math.log(math.e * max(stage, tau) / tau)
                value = mean(rewards) + math.sqrt(2 * self.scale**2 * (1 + self.alpha) * log / tau)
            values.append(value)
        return ranked(values)

    def bursting(self):
        return self.burst is not None and len(self.seen(self.burst[0])) < self.burst[1]

    def pull(self, stage):
        return self.burst[0] if self.bursting() else self.ranking(stage)[0]

    def observe(self, stage):
        return next(arm for arm in self.ranking(stage) if arm != self.pull(stage))

    def update(self, stage, arm, reward, free):
        if not free and not self.bursting():
            self.burst = None
            if self.pulled[arm]:
                self.burst = arm, level_begins(self.alpha, len(self.seen(arm)))[1]
        super().update(stage, arm, reward, free)


@cache
def level_begins(alpha, count):
    """Return tau(r) and tau(r + 1) for the largest r with tau(r) <= count."""
    with localcontext() as context:
        context.prec = 50
        power, tau = Decimal(1), 1
        while True:
            power *= Decimal(1 + alpha)
            after = math.ceil(power)
            if after > count:
                return tau, after
            tau = after


class ETCOCUCB:
    """Algorithm 2, and the variants of section 5."""

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
        self.epoch, self.end, self.origin = 0, epoch_length(p, 0), 0
        self.start(set(range(n_arms)))

    def start(self, allowed):
        """Begin OCUCB-n on the arms `allowed`, and ETC on all."""
        everything = range(self.n_arms)
        self.allowed = allowed
        self.pulls = Rewards(self.n_arms)  # what OCUCB-n knows
        self.in_play = set(everything)
        self.etc = [[] for _ in everything]
        self.looks_at = []  # since ETC began: the arms, and whether it tested after a look
        self.since_test = 0

    def ranking(self, stage):
        arms = sorted(self.allowed)
        counts = [len(self.pulls.seen(arm)) for arm in arms]
        values = []
        for n, arm in enumerate(arms):
            if self.pulls.pulled[arm]:
                average = mean(self.pulls.seen(arm))
                clock = stage - self.origin
                values.append(ocucb_index(clock, n, counts, average, self.eta, self.rho))
            else:
                values.append(math.inf)
        return [arms[n] for n in ranked(values)]

    def pull(self, stage):
        return self.ranking(stage)[0]

    def observe(self, stage):
        """Return the arm in play that follows the one last looked at, going round."""
        last = self.looks_at[-1] if self.looks_at else -1
        return min(self.in_play, key=lambda arm: (arm - last - 1) % self.n_arms)

    def test(self):
        log_d = self.p ** (self.epoch + 1) * math.log(self.p)
        log_horizon = (1 + 1 / self.p) * log_d + math.log(log_d)
        self.in_play = survivors(
            {arm: self.etc[arm] for arm in self.in_play},
            lambda s: 2 * self.alpha / s * (log_horizon - math.log(s)),
        )

    def update(self, stage, arm, reward, free):
        if self.all_info or not free:
            self.pulls.update(stage, arm, reward, free)
        if self.all_info or free:
            self.etc[arm].append(reward)
        if free:
            self.looks_at.append(arm)
            self.since_test += 1
            if self.check == "rounds" and self.since_test >= self.C * len(self.in_play):
                self.since_test = 0
                self.test()
            return
        if self.check == "doubling" and stage in {2**k for k in range(64)}:
            self.test()
        if stage == self.end:
            self.epoch += 1
            self.end += epoch_length(self.p, self.epoch)
            if self.restart:
                self.origin = stage
                self.start(self.in_play)
            else:
                self.allowed = set(self.in_play)


@cache
def epoch_length(p, m):
    """Return ceil(p^(p^m))."""
    with localcontext() as context:
        context.prec = 60
        exponent = Decimal(p) ** m
        if exponent * Decimal(p).ln() > 60:
            return 2**62
        return math.ceil((Decimal(p) ** exponent).quantize(Decimal("1e-30")))


# ------------------------------------------------------------------------------------ the model


def gaussian(means, sd=1.0):
    return lambda arm, rng: rng.normal(means[arm], sd)


def bernoulli(means):
    return lambda arm, rng: float(rng.random() < means[arm])


def weights_of(name, gaps):
    """Return the law of a passive observer's looks (sections 3.1 and 5, D31)."""
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

    `rate` is a number or a function of the stage; `every` (and `first`) makes arrivals periodic;
    `weights` are those of a passive observer.
    """
    arms = range(len(means))
    gaps = [max(means) - m for m in means]
    n_pulls, n_looks = [0] * len(means), [0] * len(means)
    for stage in range(1, horizon + 1):
        if every is not None:
            begin = every if first is None else first
            arrived = stage >= begin and (stage - begin) % every == 0
        else:
            arrived = rng.random() < (rate(stage) if callable(rate) else rate)
        arm = policy.pull(stage)
        look = policy.look(stage) if observer == "active" and arrived else None
        n_pulls[arm] += 1
        policy.update(stage, arm, draw(arm, rng), False)
        if observer == "full":
            for other in arms:
                if other != arm:
                    n_looks[other] += 1
                    policy.update(stage, other, draw(other, rng), True)
        if observer in {"passive", "active"} and arrived:
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
