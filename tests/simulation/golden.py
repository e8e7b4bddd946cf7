"""Play a fixed set of simulations and print the counts: `python tests/simulation/golden.py`.

`test_golden.py` compares the counts with `files/golden.json`. Rewrite `golden.json` only if the
numbers are meant to change, and increase the revision of the engine, or of the policy if only its
numbers change (`kibitz.simulation.fingerprint`), in the same commit.
"""

import json
import sys

import numpy as np

import kibitz as kb

POLICIES = {
    "ftl": kb.ftl(),
    "ftl_robin": kb.ftl_robin(),
    "ucb": kb.ucb(),
    "ucb:ignore_looks": kb.ucb(ignore_looks=True),
    "ucb_double": kb.ucb_double(exploration=2.0),
    "ucb_second": kb.ucb_second(),
    "ocucb": kb.ocucb(),
    "ocucb:rho": kb.ocucb(rho=0.9, ignore_looks=True),
    "etc": kb.etc(alpha=0.1),
    "etc_ocucb": kb.etc_ocucb(p=1.5),
    "etc_ocucb:restart": kb.etc_ocucb(restart=True, check="doubling", p=1.2, alpha=0.1),
    "etc_ocucb:all_info": kb.etc_ocucb(all_info=True, p=1.3, alpha=0.2, C=0.5),
    "ucb2": kb.ucb2(),
    "improved_ucb": kb.improved_ucb(),
    "moss": kb.moss(),
    "moss_anytime": kb.moss_anytime(),
    "kl_ucb": kb.kl_ucb(c=3.0),
    "thompson": kb.thompson(),
    "kibitzer": kb.kibitzer(),
}
CLICK_POLICIES = {
    "kl_ucb:bernoulli": kb.kl_ucb("bernoulli"),
    "thompson:bernoulli": kb.thompson("bernoulli"),
    "kibitzer:bernoulli": kb.kibitzer(rewards="bernoulli"),
    "kibitzer": kb.kibitzer(b=2.0, beta=0.0),
    "ucb": kb.ucb(),
}
BOUNDED_POLICIES = {
    **CLICK_POLICIES,
    "kl_ucb:bernoulli": kb.kl_ucb("bounded"),
    "thompson:bernoulli": kb.thompson("bounded"),
    "kibitzer:bernoulli": kb.kibitzer(rewards="bounded"),
}
FIVE_ARMS = kb.gaussian([2.0, 1.8, 1.5, 1.0, 0.5], sd=[1.0, 1.0, 0.5, 2.0, 1.0])
CLICKS = kb.bernoulli([0.5, 0.45, 0.3])
TABLE = kb.empirical([[0, 1, 0.5], [0.25, 0.5, 0.75, 1.0], [0.5]])
MANY_ARMS = kb.gaussian(np.linspace(0, 1, 20))
SHORT_SETTING = {"horizon": 400, "runs": 3, "seed": 5, "engine": "step"}
LONG_SETTING = {"horizon": 300_000, "runs": 2, "seed": 6, "engine": "leap"}
CASES = {
    "bandit": (FIVE_ARMS, kb.bandit(), POLICIES, SHORT_SETTING),
    "passive": (FIVE_ARMS, kb.passive(0.3, "optimal", paid=True), POLICIES, SHORT_SETTING),
    "active": (FIVE_ARMS, kb.active(0.1, looks=2), POLICIES, SHORT_SETTING),
    "every": (FIVE_ARMS, kb.active(kb.every(7, first=2)), POLICIES, SHORT_SETTING),
    "full": (FIVE_ARMS, kb.full(), POLICIES, SHORT_SETTING),
    "many": (MANY_ARMS, kb.active(0.5), POLICIES, SHORT_SETTING),
    "clicks": (CLICKS, kb.active(0.2), CLICK_POLICIES, SHORT_SETTING),
    "table": (TABLE, kb.passive(0.2), BOUNDED_POLICIES, SHORT_SETTING),
    "leap passive": (FIVE_ARMS, kb.passive(0.01), POLICIES, LONG_SETTING),
    "leap active": (FIVE_ARMS, kb.active(0.01), POLICIES, LONG_SETTING),
    "leap clicks": (CLICKS, kb.active(0.01), CLICK_POLICIES, LONG_SETTING),
    "leap many": (
        MANY_ARMS,
        kb.active(0.01),
        {k: POLICIES[k] for k in ("ucb", "kibitzer")},
        LONG_SETTING,
    ),
}
STEP_ONLY = ("ucb2", "improved_ucb", "thompson", "thompson:bernoulli")


def play(case):
    """Return the pulls, the looks and the final regret of each policy, summed over runs."""
    problem, feedback, policies, options = CASES[case]
    if options["engine"] == "leap":
        policies = {name: policy for name, policy in policies.items() if name not in STEP_ONLY}
    data = kb.simulate(problem, feedback, policies, **options)
    return {
        name: [
            data[counts].sel(policy=name).sum("run").values.tolist()
            for counts in ("n_pulls", "n_looks")
        ]
        + [float(data.final_regret.sel(policy=name).sum())]
        for name in policies
    }


if __name__ == "__main__":
    json.dump({case: play(case) for case in CASES}, sys.stdout, indent=0)
