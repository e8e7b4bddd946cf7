"""Benchmark other bandit libraries on one job; `make bench` runs this script.

The job is UCB on five Gaussian arms of unit variance without looks, for 10^4 stages. Each library has
its own virtual environment, created at the first use, and runs there in its own process on one
thread. The time covers the simulation including the drawing of rewards, but not imports and
construction. One repetition is one run with its own seed. If a library cannot be installed or run,
the script reports the error and continues with the other libraries. Not every library reports its
pulls, so the regret in these runs is computed from the noisy rewards and has a large standard error.

The command

    python benchmarks/peers.py regret

compares four libraries under equal noise instead. Their policies play in kibitz, through the adapters
in examples/peers/, next to the policy of kibitz with the same formula. The command prints the table
of docs/against.md. It needs the libraries (the extra `peers`).
"""

import contextlib
import json
import math
import os
import platform
import random
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

# The library itself comes first, then the dependencies that it needs or that affect its speed.
# SMPyBandits needs functions that newer versions of NumPy and SciPy removed; rlberry needs a function
# that Gymnasium 1 removed. rlberry contained bandits up to version 0.6. They moved to
# rlberry-research, which is not tested, because pip did not find it when this was written.
REQUIREMENTS = {
    "SMPyBandits": ["SMPyBandits==0.9.7", "numpy==1.26.4", "scipy==1.13.1"],
    "mabwiser": ["mabwiser==2.7.4", "joblib==1.6.0", "numpy==2.4.6"],
    "coba": ["coba==8.1.0"],
    "rlberry": ["rlberry==0.6.0", "gymnasium==0.29.1", "numpy==2.4.6", "scipy==1.17.1"],
    "rlberry-research": ["rlberry-research"],
    "jax": ["jax==0.10.2"],
}
JAX_RUNS = 100  # runs in parallel; more runs would not be faster
SAME_INDEX = "mean + sqrt(6 log t / n)"
POLICIES = {
    "SMPyBandits": f"UCBalpha(alpha=12): {SAME_INDEX}",
    "mabwiser": f"UCB1(alpha=sqrt(3)): {SAME_INDEX}",
    "coba": "BanditUCBLearner: UCB1-Tuned, no constant to set",
    "rlberry": f"makeSubgaussianUCBIndex(delta=t^-3): {SAME_INDEX}",
    "rlberry-research": f"makeSubgaussianUCBIndex(delta=t^-3): {SAME_INDEX}",
    "jax": f"{JAX_RUNS} runs at once, by scan and vmap: {SAME_INDEX}",
}
MEANS = [2, 1.8, 1.5, 1, 0.5]
HORIZON, REPETITIONS = 10_000, 5
TIMEOUT_SECONDS = 300  # for each installation and each measurement
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
ONE_THREAD |= {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


# Each function below returns two functions: one plays the job, and one returns the total reward.


def prepare_smpybandits(horizon, seed):
    """Prepare the library's own Evaluator in one process; its time includes storing the results.

    The option cache_rewards draws all rewards of a run at once, which is faster. The time includes
    this drawing. The library uses numba for KL-UCB and joblib for many runs; neither matters here.
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

    The library does not draw rewards. NumPy draws all the noise at once, within the measured time.
    Both methods accept batches, and the library's Simulator replays logged data in batches. Batches
    do not help here, because each decision depends on the previous reward. The library uses one job,
    which is its default.
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
    """Prepare a quiet Experiment in one process that stores its results in memory.

    The library's simulations draw the rewards of all arms at each stage. The benchmark does
    not use the library's batches, because all decisions of a batch are made before any of its rewards
    is known. This is a different problem.
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
    """Prepare the `fit` of an IndexAgent on a NormalBandit, without an ExperimentManager.

    Nearly half of the time is spent in SciPy, which draws one normal number at a time. The
    environment with precomputed rewards is faster but meant for adversarial bandits.
    """
    agents, envs = (import_module(f"{package}.{module}.bandits") for module in ("agents", "envs"))
    index, tracker_options = agents.makeSubgaussianUCBIndex(sigma=1.0, delta=lambda t: 1 / t**3)
    environment = (envs.NormalBandit, {"means": MEANS})
    agent = agents.IndexAgent(environment, index, tracker_params=tracker_options, seeder=seed)
    results = []

    def play():
        results.append(agent.fit(budget=horizon))

    return play, lambda: results[0]["episode_reward"]


def prepare_jax(horizon, seed):
    """Prepare a compiled `scan` over stages and `vmap` over runs, on one CPU thread.

    The noise is drawn inside the loop, because an array for all stages and runs would not fit into
    the CPU caches. Numbers are in single precision, JAX's default, which favours JAX.
    """
    import jax
    import jax.numpy as jnp

    means = jnp.array(MEANS, float)
    n_arms = len(MEANS)

    def play_stage(carry, stage):
        key, counts, sums, total_reward = carry
        key, subkey = jax.random.split(key)
        index = sums / counts + jnp.sqrt(6 * jnp.log(stage) / counts)
        arm = jnp.argmax(index)
        is_chosen = jnp.arange(n_arms) == arm
        reward = means[arm] + jax.random.normal(subkey)
        return (key, counts + is_chosen, sums + is_chosen * reward, total_reward + reward), None

    def play_run(key):
        key, subkey = jax.random.split(key)
        first_rewards = means + jax.random.normal(subkey, (n_arms,))
        carry = key, jnp.ones(n_arms), first_rewards, first_rewards.sum()
        stages = jnp.arange(n_arms + 1, horizon + 1)
        return jax.lax.scan(play_stage, carry, stages)[0][3]

    play_runs = jax.jit(jax.vmap(play_run))
    keys = jax.random.split(jax.random.key(seed), JAX_RUNS)
    play_runs(keys).block_until_ready()  # compile first
    totals = []

    def play():
        totals.append(play_runs(keys).block_until_ready())

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
    """Measure a library in this process, which must run in the environment of the library."""
    cpu_ns, wall_ns, regret = [], [], []
    PREPARE[peer](100, 0)[0]()  # import and compile everything first
    for seed in range(1, REPETITIONS + 1):
        play, total_reward = PREPARE[peer](HORIZON, seed)
        cpu, wall = time.process_time(), time.perf_counter()
        play()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        stages = HORIZON * (JAX_RUNS if peer == "jax" else 1)
        cpu_ns.append(cpu / stages * 1e9)
        wall_ns.append(wall / stages * 1e9)
        mean = float(total_reward()) / HORIZON
        regret.append((max(MEANS) - mean) * HORIZON)
        assert 1.5 < mean < 2.1, f"the mean reward {mean:.3f} is not that of UCB on these arms"
    return {
        "version": version(peer),
        "policy": POLICIES[peer],
        "stages": HORIZON,
        "cpu_ns": cpu_ns,
        "wall_ns": wall_ns,
        "regret": regret,
    }


def run(command: list, timeout: float = TIMEOUT_SECONDS, **options) -> str:
    """Return the output of a command; if it fails, raise RuntimeError with its last error line."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    ) as process:
        try:
            output, error_output = process.communicate(timeout=timeout)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # the process and its children
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"not finished after {timeout} s") from error
            raise
    if process.returncode:
        lines = [line.strip() for line in error_output.splitlines() if line.strip()]
        error_lines = [line for line in lines if re.search("error|exception", line, re.IGNORECASE)]
        raise RuntimeError((error_lines or lines or [f"exit code {process.returncode}"])[-1])
    return output


def make_environment(
    peer: str, requirements: list[str], folder: Path, log: Callable[[str], None]
) -> Path:
    """Return the Python program of a virtual environment; create the environment if necessary."""
    environment = (folder / peer.lower()).absolute()
    python = environment / "bin" / "python"
    complete_marker = environment / "complete"
    expected = "\n".join([f"Python {platform.python_version()}", *requirements])
    if not (python.exists() and complete_marker.exists() and complete_marker.read_text() == expected):
        log(f"installing {' '.join(requirements)}")
        run([sys.executable, "-m", "venv", "--clear", environment])
        pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        run([*pip, *requirements])
        complete_marker.write_text(expected)
    return python


def measure(folder: Path, log: Callable[[str], None] = print) -> dict[str, dict]:
    """Measure all libraries; return the times of each library, or the error message.

    `folder` holds the virtual environments of the libraries.
    """
    results = {}
    for peer, requirements in REQUIREMENTS.items():
        try:
            python = make_environment(peer, requirements, folder, log)
            log(f"measuring {peer}")
            # The option -I ignores the modules in this folder and PYTHONPATH.
            command = [python, "-I", Path(__file__).absolute(), peer]
            settings = os.environ | ONE_THREAD | {"MPLBACKEND": "Agg"}
            results[peer] = json.loads(run(command, cwd=python.parents[1], env=settings))
        except (OSError, RuntimeError, ValueError) as error:
            results[peer] = {"error": str(error)}
    return results


# --------------------------------------------------------------------------- regret under equal noise

ROOT = Path(__file__).absolute().parents[1]
ADAPTERS = ROOT / "examples" / "peers"
REGRET_TIMEOUT_SECONDS = 1800
PAIRED_HORIZON, PAIRED_RUNS = 1000, 200
TIMED_RUNS = 10  # per call of `simulate`; the fixed cost of a call is about 10 ms
SIMILAR_POLICY = {"use_bayesianbandits": "thompson"}  # all other adapters play UCB


class FirstArm:
    """A policy that always pulls arm 0, to measure the cost of `python_policy` itself."""

    def __init__(self, n_arms):
        pass

    def pull(self, stage, rng):
        return 0

    def update(self, arm, reward, is_look):
        pass


def measure_regret(folder: Path, log: Callable[[str], None] = print) -> list[str]:
    """Run `compare_regret` in an environment with the extra `peers`; return the printed lines."""
    try:
        python = make_environment("adapters", ["--editable", f"{ROOT}[peers]"], folder, log)
        log("comparing the regret under equal noise")
        command = [python, "-I", Path(__file__).absolute(), "regret"]
        settings = os.environ | ONE_THREAD | {"MPLBACKEND": "Agg"}
        output = run(command, REGRET_TIMEOUT_SECONDS, cwd=python.parents[1], env=settings)
        # SMPyBandits also prints messages in the worker processes.
        return [line for line in output.splitlines() if line.startswith(("|", "loop"))]
    except (OSError, RuntimeError) as error:
        return [str(error)]


def compare_regret():
    """Print a table that compares policies of other libraries with kibitz on the same noise."""
    import kibitz

    setting = kibitz.gaussian(MEANS), kibitz.bandit()
    options = {"horizon": PAIRED_HORIZON, "runs": PAIRED_RUNS, "seed": 1}
    nothing = time_stage(setting, kibitz.python_policy(FirstArm))
    print(f"loop in Python with an object that does nothing: {nothing:.1f} µs per stage")
    print("| Library | Policy | Regret | kibitz | Paired difference | Time per stage |")
    print("|---|---|---:|---:|---:|---:|")
    for path in sorted(ADAPTERS.glob("use_*.py")):
        with contextlib.redirect_stdout(sys.stderr):  # the libraries print messages
            theirs = runpy.run_path(str(path))["policy"]
        ours = getattr(kibitz, SIMILAR_POLICY.get(path.stem, "ucb"))()
        data = kibitz.simulate(*setting, {"theirs": theirs, "ours": ours}, **options)
        table = kibitz.compare(data, baseline="ours")
        quantities = [
            ("theirs", "regret", "regret_error"),
            ("ours", "regret", "regret_error"),
            ("theirs", "difference", "error"),
        ]
        cells = []
        for label, mean, error in quantities:
            row = table.sel(policy=label)
            cells.append(f"{row[mean].item():.1f} ± {row[error].item():.1f}".replace("-", "−"))
        library, _, policy = theirs.name.partition(" ")
        library += f" {theirs.parameters['version']}"
        microseconds = time_stage(setting, theirs)
        print(f"| {library} | {policy} | {' | '.join(cells)} | {microseconds:.0f} µs |", flush=True)


def time_stage(setting, policy) -> float:
    """Return the CPU time per stage in microseconds, the smaller of two measurements."""
    import kibitz

    def play():
        options = {"horizon": PAIRED_HORIZON, "runs": TIMED_RUNS, "seed": 1, "threads": 1}
        kibitz.simulate(*setting, policy, **options)

    times = []
    for _ in range(2):
        start = time.process_time()
        play()
        times.append(time.process_time() - start)
    return min(times) / (PAIRED_HORIZON * TIMED_RUNS) * 1e6


def main():
    """Run `compare_regret`, or measure the library that the command line names."""
    if sys.argv[1:] == ["regret"]:
        compare_regret()
        return
    with contextlib.redirect_stdout(sys.stderr):  # the libraries print messages
        result = measure_here(sys.argv[1])
    print(json.dumps(result))


if __name__ == "__main__":
    main()
