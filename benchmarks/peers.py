"""How fast other bandit libraries play the same job; a part of `make bench`.

The job is UCB on five Gaussian arms of unit variance without side observations, 10^4 stages. Each
peer has a virtual environment of its own, made on first use, and is measured there in a process of
its own on one thread: the simulation alone, the drawing of rewards included, imports and
construction not. One repetition is one run with a seed of its own. A peer that does not install or
does not run is reported and the others go on.
"""

import contextlib
import json
import math
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

# The peer itself comes first, then what it does not run without or what its speed hangs on.
# SMPyBandits needs functions that newer NumPy and SciPy dropped, rlberry one that Gymnasium 1 did.
# rlberry had its bandits up to 0.6; pip found no rlberry-research, where they moved, when this was
# written: it has never been seen to run.
REQUIREMENTS = {
    "SMPyBandits": ["SMPyBandits==0.9.7", "numpy==1.26.4", "scipy==1.13.1"],
    "mabwiser": ["mabwiser==2.7.4", "joblib==1.6.0", "numpy==2.4.6"],
    "coba": ["coba==8.1.0"],
    "rlberry": ["rlberry==0.6.0", "gymnasium==0.29.1", "numpy==2.4.6", "scipy==1.17.1"],
    "rlberry-research": ["rlberry-research"],
    "jax": ["jax==0.10.2"],
}
JAX_RUNS = 100  # at once: the more, the faster, up to about this many
SAME = "mean + sqrt(6 log t / n)"
POLICIES = {
    "SMPyBandits": f"UCBalpha(alpha=12): {SAME}",
    "mabwiser": f"UCB1(alpha=sqrt(3)): {SAME}",
    "coba": "BanditUCBLearner: UCB1-Tuned, no constant to set",
    "rlberry": f"makeSubgaussianUCBIndex(delta=t^-3): {SAME}",
    "rlberry-research": f"makeSubgaussianUCBIndex(delta=t^-3): {SAME}",
    "jax": f"{JAX_RUNS} runs at once, by scan and vmap: {SAME}",
}
MEANS = [2, 1.8, 1.5, 1, 0.5]
HORIZON, REPETITIONS = 10_000, 5
PATIENCE = 300  # seconds for an installation, and for a measurement
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
ONE_THREAD |= {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def prepare_smpybandits(horizon, seed):
    """Prepare the library's own Evaluator, in one process: its loop and the storing of its results.

    The option cache_rewards draws all rewards of a run at once, which is faster; this is counted.
    Its numba is for KL-UCB and the like and its joblib for many runs: neither would change this.
    """
    import numpy as np
    from SMPyBandits.Arms import UnboundedGaussian
    from SMPyBandits.Environment import Evaluator
    from SMPyBandits.Policies import UCBalpha

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the library draws from the global generators)
    evaluator = Evaluator(
        {
            "horizon": horizon,
            "repetitions": 1,
            "n_jobs": 1,
            "verbosity": 0,
            "cache_rewards": True,
            "environment": [{"arm_type": UnboundedGaussian, "params": [(mean, 1) for mean in MEANS]}],
            "policies": [{"archtype": UCBalpha, "params": {"alpha": 12}}],
        }
    )

    def play():
        evaluator.startOneEnv(0, evaluator.envs[0])

    return play, lambda: evaluator.lastCumRewards[0, 0, 0]


def prepare_mabwiser(horizon, seed):
    """Prepare a loop of `predict` and `partial_fit`, the documented way to learn online.

    The library has no arms to draw from; the noise is drawn at once by NumPy, which is counted.
    Both calls take batches and its Simulator replays logged data in batches: neither serves here,
    because each decision hangs on the reward before. It runs one job, its default.
    """
    import numpy as np
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(len(MEANS)))
    mab = MAB(arms, LearningPolicy.UCB1(alpha=math.sqrt(3)))
    rewards = []

    def play():
        noise = np.random.default_rng(seed).standard_normal(horizon).tolist()
        rewards.extend(MEANS[arm] + noise[arm] for arm in arms)
        mab.fit(arms, rewards)
        for stage in range(len(arms), horizon):
            arm = mab.predict()
            rewards.append(MEANS[arm] + noise[stage])
            mab.partial_fit([arm], rewards[-1:])

    return play, lambda: sum(rewards)


def prepare_coba(horizon, seed):
    """Prepare a quiet Experiment in one process that keeps its results in memory.

    Its simulations draw the rewards of all arms at each stage. Its batches are interactions that are
    decided before any of them is learned from, which is another problem.
    """
    from coba import BanditUCBLearner, Environments, Experiment

    means = dict(zip("abcde", MEANS, strict=True))
    arms = list(means)
    environment = Environments.from_lambda(
        horizon,
        lambda stage, rng: None,
        lambda stage, context, rng: arms,
        lambda stage, context, arm, rng: rng.gauss(means[arm], 1),
        seed=seed,
    )
    experiment = Experiment(environment, BanditUCBLearner(seed=seed))
    results = []

    def play():
        results.append(experiment.run(quiet=True, processes=1))

    return play, lambda: sum(results[0].interactions["reward"])


def prepare_rlberry(horizon, seed, package="rlberry"):
    """Prepare the `fit` of an IndexAgent on a NormalBandit, without the ExperimentManager around it.

    Nearly half of the time is in SciPy, which the environment asks for one normal at a time. The
    environment that reads rewards made in advance is faster but meant for adversarial bandits.
    """
    agents, envs = (import_module(f"{package}.{part}.bandits") for part in ("agents", "envs"))
    index, tracked = agents.makeSubgaussianUCBIndex(sigma=1.0, delta=lambda t: 1 / t**3)
    environment = (envs.NormalBandit, {"means": MEANS})
    agent = agents.IndexAgent(environment, index, tracker_params=tracked, seeder=seed)
    results = []

    def play():
        results.append(agent.fit(budget=horizon))

    return play, lambda: results[0]["episode_reward"]


def prepare_jax(horizon, seed):
    """Prepare `scan` over stages and `vmap` over runs, compiled, on one thread of the processor.

    All noise is drawn inside of the loop: an array of it for all stages and runs would not fit into
    the caches. Numbers are single-precision, the library's default, which favours it.
    """
    import jax
    import jax.numpy as jnp

    means = jnp.array(MEANS, float)
    n_arms = len(MEANS)

    def stage_of(known, stage):
        key, counts, sums, total = known
        key, now = jax.random.split(key)
        index = sums / counts + jnp.sqrt(6 * jnp.log(stage) / counts)
        arm = jnp.argmax(index)
        chosen = jnp.arange(n_arms) == arm
        reward = means[arm] + jax.random.normal(now)
        return (key, counts + chosen, sums + chosen * reward, total + reward), None

    def run_of(key):
        key, now = jax.random.split(key)
        first = means + jax.random.normal(now, (n_arms,))
        known = key, jnp.ones(n_arms), first, first.sum()
        stages = jnp.arange(n_arms + 1, horizon + 1)
        return jax.lax.scan(stage_of, known, stages)[0][3]

    many = jax.jit(jax.vmap(run_of))
    keys = jax.random.split(jax.random.key(seed), JAX_RUNS)
    many(keys).block_until_ready()  # compiled
    totals = []

    def play():
        totals.append(many(keys).block_until_ready())

    return play, lambda: totals[0].mean()


PREPARE = {
    "SMPyBandits": prepare_smpybandits,
    "mabwiser": prepare_mabwiser,
    "coba": prepare_coba,
    "rlberry": prepare_rlberry,
    "rlberry-research": partial(prepare_rlberry, package="rlberry_research"),
    "jax": prepare_jax,
}


def measure_here(peer: str) -> dict:
    """Measure a peer in this process, which must be in its environment."""
    cpu_ns, wall_ns = [], []
    PREPARE[peer](100, 0)[0]()  # so that nothing is loaded later
    for seed in range(1, REPETITIONS + 1):
        play, total_reward = PREPARE[peer](HORIZON, seed)
        cpu, wall = time.process_time(), time.perf_counter()
        play()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        stages = HORIZON * (JAX_RUNS if peer == "jax" else 1)
        cpu_ns.append(cpu / stages * 1e9)
        wall_ns.append(wall / stages * 1e9)
        mean = float(total_reward()) / HORIZON
        assert 1.5 < mean < 2.1, f"the mean reward is {mean:.3f}, so this is not UCB on these arms"
    return {
        "version": version(peer),
        "policy": POLICIES[peer],
        "stages": HORIZON,
        "cpu_ns": cpu_ns,
        "wall_ns": wall_ns,
    }


def run(command: list, **options) -> str:
    """Run a command and return what it prints; one that fails gives the line that says why."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    ) as process:
        try:
            output, complaint = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # and all that it started
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"not done after {PATIENCE} s") from error
            raise
    if process.returncode:
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        telling = [line for line in lines if re.search("error|exception", line, re.IGNORECASE)]
        raise RuntimeError((telling or lines or [f"exit code {process.returncode}"])[-1])
    return output


def environment_of(peer: str, folder: Path, say: Callable[[str], None]) -> Path:
    """Return the Python of a peer's environment, which is made unless it is there and complete."""
    environment = (folder / peer.lower()).absolute()
    python = environment / "bin" / "python"
    complete = environment / "complete"
    wanted = "\n".join([f"Python {platform.python_version()}", *REQUIREMENTS[peer]])
    if not (python.exists() and complete.exists() and complete.read_text() == wanted):
        say(f"installing {' '.join(REQUIREMENTS[peer])}")
        run([sys.executable, "-m", "venv", "--clear", environment])
        pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        run([*pip, *REQUIREMENTS[peer]])
        complete.write_text(wanted)
    return python


def measure(folder: Path, say: Callable[[str], None] = print) -> dict[str, dict]:
    """Measure all peers, with their environments in a folder; a peer that fails gives its error."""
    results = {}
    for peer in REQUIREMENTS:
        try:
            python = environment_of(peer, folder, say)
            say(f"measuring {peer}")
            # -I: neither this folder's modules nor PYTHONPATH get in the way
            command = [python, "-I", Path(__file__).absolute(), peer]
            settings = os.environ | ONE_THREAD | {"MPLBACKEND": "Agg"}
            results[peer] = json.loads(run(command, cwd=python.parents[1], env=settings))
        except (OSError, RuntimeError, ValueError) as error:
            results[peer] = {"error": str(error)}
    return results


def main():
    """Measure one peer; called by `measure`, with the Python of the peer's environment."""
    with contextlib.redirect_stdout(sys.stderr):  # peers print, too
        result = measure_here(sys.argv[1])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
