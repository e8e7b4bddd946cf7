"""How fast: nanoseconds per stage, ratios to the floor, starts, cores, leaps and peers. `make bench`.

The floor is a compiled loop that only draws one standard normal per stage with the same generator, as
numba does it. The cases of a table of stages take turns, in one process, in CPU time and wall time.
The smallest of each counts, and ratios are to the floor of the same run: machines are noisy. All is
printed and written to docs/performance.txt.
"""

import argparse
import ctypes
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numba
import numpy as np
import peers

import kibitz
from kibitz.engine.jit import link
from kibitz.engine.rng import new_stream, normal
from kibitz.policies import POLICIES
from kibitz.simulation.jobs import Job, play
from kibitz.simulation.results.dataset import versions
from kibitz.simulation.schedule import log_spaced

FIVE, FOUR = [2, 1.8, 1.5, 1, 0.5], [2, 1.8, 0.5, 0.2]
HORIZON, RUNS, REPETITIONS = 10_000, 200, 10
BANDIT, ACTIVE = kibitz.bandit(), kibitz.active(0.1)
MANY_ARMS = {"ucb": BANDIT, "ucb_double": ACTIVE, "ocucb": BANDIT, "etc_ocucb": ACTIVE}
BY_HAND, DOUBLE_BY_HAND = "ucb by hand in C++", "ucb_double by hand in C++"
OWN, DRAFT = "own formula of UCB, bandit", "the same as a draft, bandit"
REPORT = Path(__file__).parents[1] / "docs" / "performance.txt"
lines: list[str] = []


def say(line: str = "") -> None:
    """Print a line, and keep it for the report."""
    print(line, flush=True)
    lines.append(line)


# --------------------------------------------------------------------------------- what is played


def own_index(params, stage, counts, arm, mean):
    """UCB, as a user would write it."""
    return mean + math.sqrt(6 * math.log(stage) / counts[arm])


@numba.njit(nogil=True)
def floor_loop(rng, n):
    """Draw n standard normals, by numba."""
    total = 0.0
    for _ in range(n):
        total += rng.standard_normal()
    return total


def normal_loop(stream, n):
    """Draw the same normals, by kibitz."""
    total = 0.0
    for _ in range(n):
        total += normal(stream)
    return total


def numpy_ucb(runs, rng):
    """Play UCB in NumPy, vectorised over runs."""
    means = np.array(FIVE)
    counts, sums = np.ones((runs, 5)), means + rng.standard_normal((runs, 5))
    rows = np.arange(runs)
    for stage in range(6, HORIZON + 1):
        arms = np.argmax(sums / counts + np.sqrt(6 * np.log(stage) / counts), axis=1)
        counts[rows, arms] += 1
        sums[rows, arms] += means[arms] + rng.standard_normal(runs)


def python_ucb(rng):
    """Play UCB in plain Python."""
    counts, sums = [1] * 5, [mean + rng.gauss(0, 1) for mean in FIVE]
    for stage in range(6, HORIZON + 1):
        log = 6 * math.log(stage)
        arm = max(range(5), key=lambda i: sums[i] / counts[i] + math.sqrt(log / counts[i]))
        counts[arm] += 1
        sums[arm] += FIVE[arm] + rng.gauss(0, 1)


def limit_cases(folder):
    """Return the cases of UCB and UCB1-Double by hand in C++; none where there is no compiler."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        say("UCB by hand in C++: left out, for there is no compiler (g++, clang++ or $CXX)")
        return {}
    library = Path(folder) / "ucb.so"
    options = ["-O3", "-march=native", "-shared", "-fPIC"]
    source = Path(__file__).parent / "ucb.cpp"
    subprocess.run([compiler, *options, "-o", library, source], check=True)
    whole, real = np.ctypeslib.ndpointer(np.int64), np.ctypeslib.ndpointer(np.float64)
    by_hand = ctypes.CDLL(library).play
    by_hand.argtypes = [ctypes.c_int64, ctypes.c_double, whole, ctypes.c_int64, real]
    by_hand.restype = None
    stages = log_spaced(HORIZON)
    regret = np.zeros((RUNS, stages.size))

    def case(rate):
        return lambda: by_hand(RUNS, rate, stages, stages.size, regret), RUNS * HORIZON

    return {BY_HAND: case(0.0), DOUBLE_BY_HAND: case(ACTIVE.rate)}


def job_of(policy, feedback, means, horizon=HORIZON, runs=RUNS, leap=False):
    """Return some runs to play, compiled."""
    problem = kibitz.gaussian(means)
    setting = (policy, problem, feedback, horizon, log_spaced(horizon), 1)
    job = Job(None, *setting, 0, runs, leap, kernel="specialised")
    play(job._replace(horizon=10, stages=np.array([10]), last=1))
    return job


def case_of(job):
    """Return a function that plays a job, and how many stages that is."""
    return lambda: play(job), job.last * job.horizon


# -------------------------------------------------------------------------------------- measuring


def seconds(function):
    """Return the CPU time and the wall time that a call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.process_time() - cpu, time.perf_counter() - wall


def measure(cases, repetitions):
    """Return for each case the CPU times and wall times of a stage, in ns; cases take turns."""
    times = {label: ([], []) for label in cases}
    for _ in range(repetitions):
        for label, (function, stages) in cases.items():
            for kept, took in zip(times[label], seconds(function), strict=True):
                kept.append(took / stages * 1e9)
    return times


def floor_cases():
    """Return the cases of the floor."""
    rng, stream, n = np.random.Generator(np.random.SFC64(1)), new_stream(1), 10**6
    own_loop = numba.njit(nogil=True)(link(normal_loop))
    floor_loop(rng, 10)
    own_loop(stream, 10)
    return {
        "floor: a normal drawn by numba": (lambda: floor_loop(rng, n), n),
        "the same normal drawn by kibitz": (lambda: own_loop(stream, n), n),
    }


def tell(times, floor):
    """Print a table of times per stage."""
    say(f"{'':40} {'CPU ns':>9} {'median':>9} {'wall ns':>9} {'x floor':>9}")
    for label, (cpu, wall) in times.items():
        best, middle = min(cpu), statistics.median(cpu)
        say(f"{label:40} {best:9.1f} {middle:9.1f} {min(wall):9.1f} {best / floor:9.2f}")


def tell_policies(folder):
    """Print what a stage costs with five arms; return the times and the floor."""
    cases = floor_cases() | limit_cases(folder)
    for name, make in POLICIES.items():
        feedback = BANDIT if name in {"ucb", "ocucb", "kl_ucb"} else ACTIVE
        cases[f"{name}, {feedback.observer}"] = case_of(job_of(make(), feedback, FIVE))
    own = kibitz.index_policy("own", own_index)
    cases[OWN] = case_of(job_of(own, BANDIT, FIVE))
    cases[DRAFT] = case_of(job_of(own, BANDIT, FIVE)._replace(kernel="generic"))
    n = 100 * HORIZON
    cases["ucb, NumPy over 100 runs"] = (lambda: numpy_ucb(100, np.random.default_rng(1)), n)
    cases["ucb, plain Python"] = (lambda: python_ucb(random.Random(1)), HORIZON)
    times = measure(cases, REPETITIONS)
    floor = min(times["floor: a normal drawn by numba"][0])
    say(f"\nA stage, on one core: five arms, T = 10^4, active: rate 0.1, {RUNS} runs")
    tell(times, floor)
    return times, floor


def tell_arms(floor):
    """Print what a stage costs with few and many arms, means from 1 down to 0; return the times."""
    cases, numbers = {}, {}
    for name, feedback in MANY_ARMS.items():
        for n_arms, runs in {2: RUNS, 5: RUNS, 50: 40, 500: 10, 5000: 1}.items():
            means = np.linspace(1, 0, n_arms)
            label = f"{name}, {feedback.observer}, K = {n_arms}"
            cases[label] = case_of(job_of(POLICIES[name](), feedback, means, runs=runs))
            numbers[label] = n_arms
    times = measure(cases, 3)
    best = {label: min(cpu) for label, (cpu, _) in times.items()}
    say("\nMany arms: equally spaced means, T = 10^4")
    say(f"{'':40} {'CPU ns':>9} {'per arm':>9} {'wall ns':>9} {'x floor':>9} {'x ucb':>9}")
    for label, n_arms in numbers.items():
        ratio = best[label] / best[f"ucb, bandit, K = {n_arms}"]
        say(
            f"{label:40} {best[label]:9.1f} {best[label] / n_arms:9.2f} {min(times[label][1]):9.1f}"
            f" {best[label] / floor:9.2f} {ratio:9.2f}"
        )
    return best


def tell_cores():
    """Print what all cores bring to whole simulations, and to the floor; return the ratio."""
    cores = os.cpu_count() or 1
    rngs = [np.random.Generator(np.random.SFC64(n)) for n in range(cores)]
    problem, policies = kibitz.gaussian(FIVE), [POLICIES[name]() for name in MANY_ARMS]

    def simulate(threads, runs):
        kibitz.simulate(
            problem, ACTIVE, policies, horizon=HORIZON, runs=runs, seed=1, threads=threads,
            kernel="specialised",
        )  # fmt: skip

    def draw(threads):
        share = 20_000_000 // threads
        crowd = [threading.Thread(target=floor_loop, args=(rng, share)) for rng in rngs[:threads]]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()

    say(f"\nAll cores: wall time of one thread over that of {cores}")
    ratios = {}
    simulate(1, 2)
    for label, function in (
        ("the floor", draw),
        (f"simulate, {len(policies)} policies, 300 runs", lambda threads: simulate(threads, 300)),
        (f"simulate, {len(policies)} policies, 3000 runs", lambda threads: simulate(threads, 3000)),
    ):
        one, all_of_them = [], []
        for _ in range(5):
            one.append(seconds(lambda: function(1))[1])  # noqa: B023 (called at once)
            all_of_them.append(seconds(lambda: function(cores))[1])  # noqa: B023
        ratios[label] = min(one) / min(all_of_them)
        say(f"{label:40} {min(one):9.3f} s {min(all_of_them):9.3f} s {ratios[label]:9.2f}")
    return ratios


BUSY = """
import time
start = time.perf_counter()
import kibitz
said = []
def progress(what, share):
    if what.startswith("compiling"):
        said.append("compiles")
    elif len(said) < 2:
        said.append(time.perf_counter() - start)
kibitz.simulate(kibitz.gaussian([2, 1.8, 1.5, 1, 0.5]), kibitz.active(0.1), kibitz.ucb(),
                horizon=10_000, runs=10, seed=1, progress=progress)
print("compiles" in said, next(moment for moment in said if moment != "compiles"))
"""

NEW = """
import math, random, time
import kibitz
def seconds(horizon):
    begun, constant = time.perf_counter(), random.uniform(1, 2)  # a formula that was never seen
    def index(params, stage, counts, arm, mean):
        return mean + math.sqrt(constant * math.log(stage) / counts[arm])
    kibitz.simulate(kibitz.gaussian([2, 1.8, 1.5, 1, 0.5]), kibitz.active(0.1),
                    kibitz.index_policy("new", index), horizon=horizon, runs=100, seed=1)
    return time.perf_counter() - begun
first, step, _, leap = seconds(10**4), seconds(10**4), seconds(10**6), seconds(10**6)
print(step, leap)
"""


def tell_starts():
    """Print how long commands take to start, with nothing kept and with all kept."""
    command = [sys.executable, "-m", "kibitz.cli"]
    simulate = [*command, "simulate", "--means", "2,1.8,1.5,1,0.5", "--policy", "ucb"]
    simulate += ["--observer", "active", "--rate", "0.1", "--runs", "10"]
    say(f"\nStarts, whole processes{'':17} {'CPU s':>9} {'median':>9} {'wall s':>9}")
    with tempfile.TemporaryDirectory() as kept:
        settings = os.environ | {"XDG_CACHE_HOME": kept}

        def start(label, arguments, repetitions):
            cpu, wall, output = [], [], ""
            for _ in range(repetitions):
                before, moment = os.times(), time.perf_counter()
                done = subprocess.run(
                    arguments, env=settings, check=True, capture_output=True, text=True
                )
                wall.append(time.perf_counter() - moment)
                after = os.times()
                cpu.append(sum(after[2:4]) - sum(before[2:4]))
                output = done.stdout
            say(f"{label:40} {min(cpu):9.2f} {statistics.median(cpu):9.2f} {min(wall):9.2f}")
            return output

        start("kibitz --help", [*command, "--help"], 5)
        start("kibitz policies", [*command, "policies"], 5)
        start("import kibitz", [sys.executable, "-c", "import kibitz"], 5)
        start(
            "import kibitz and the simulator",
            [sys.executable, "-c", "import kibitz.simulation.simulate"],
            5,
        )
        start("kibitz simulate, nothing kept", simulate, 1)
        start("kibitz simulate, second start", simulate, 5)
        output = start("a simulation in Python, second start", [sys.executable, "-c", BUSY], 5)
        compiles, busy = output.split()
        say(f"    compiles: {'yes' if compiles == 'True' else 'no'}; busy after {float(busy):.2f} s")
        start("a formula's first start, 100 runs", [sys.executable, "-c", NEW], 1)
        once = NEW.replace("first, step", "first = seconds(10**4)\nraise SystemExit\nfirst, step")
        start("a new formula, 100 runs of 10^4 stages", [sys.executable, "-c", once], 5)
        output = start("four of them, two leaping to 10^6", [sys.executable, "-c", NEW], 5)
        step, leap = map(float, output.split())
        say(f"    in a warm process: {step:.2f} s wall, leaping to 10^6 {leap:.2f} s")


def tell_leaps():
    """Print what a run costs when it leaps."""
    say(f"\n{'Leaping: CPU ms per run':40}" + "".join(f"{f'T = 10^{e}':>10}" for e in (4, 6, 9, 12)))
    for label, policy, feedback, means in (
        ("ucb, passive 0.1", kibitz.ucb(), kibitz.passive(0.1), FOUR),
        ("ucb, no looks", kibitz.ucb(), BANDIT, FOUR),
        ("ucb_double, active 0.1", kibitz.ucb_double(), ACTIVE, FIVE),
        ("etc_ocucb, active 0.1", kibitz.etc_ocucb(), ACTIVE, FIVE),
        ("ftl_robin, active 0.1", kibitz.ftl_robin(), ACTIVE, FOUR),
    ):
        row = [leap_ms(policy, feedback, means, exponent, 10) for exponent in (4, 6, 9, 12)]
        say(f"{label:40}" + "".join(f"{ms:10.2f}" for ms in row))
    say(f"{'with 500 arms, means from 1 down to 0':40}{'T = 10^4':>10}{'T = 10^6':>10}")
    for name, feedback in {**MANY_ARMS, "kibitzer": ACTIVE}.items():
        many = np.linspace(1, 0, 500)
        row = [leap_ms(POLICIES[name](), feedback, many, exponent, 1) for exponent in (4, 6)]
        say(f"{f'{name}, {feedback.observer}':40}" + "".join(f"{ms:10.2f}" for ms in row))


def leap_ms(policy, feedback, means, exponent, runs):
    """Return the CPU time of a run of 10^exponent stages that leaps, in ms."""
    play, _ = case_of(job_of(policy, feedback, means, 10**exponent, runs, leap=True))
    return min(seconds(play)[0] for _ in range(3)) * 1000 / runs


def tell_peers(folder, floor, ucb):
    """Print how fast other libraries are."""
    results = peers.measure(folder, lambda line: print(f"    ({line})", flush=True))
    say("\nOther libraries, UCB on the same five arms, one core; each in an environment of its own")
    say(f"{'':40} {'CPU ns':>9} {'median':>9} {'wall ns':>9} {'x floor':>9} {'x kibitz':>9}")
    for peer, result in results.items():
        if "error" in result:
            say(f"{peer:40} {result['error']}")
            continue
        cpu, wall = result["cpu_ns"], result["wall_ns"]
        say(
            f"{peer + ' ' + result['version']:40} {min(cpu):9.0f} {statistics.median(cpu):9.0f}"
            f" {min(wall):9.0f} {min(cpu) / floor:9.0f} {min(cpu) / ucb:9.0f}"
        )
        say(f"    {result['policy']}")


def tell_goals(times, floor, arms, ratios):
    """Print what was to be reached, and whether it is."""
    best = {label: min(cpu) for label, (cpu, _) in times.items()}
    limits = []
    if BY_HAND in best:
        hand, double = best[BY_HAND], best[DOUBLE_BY_HAND]
        limits = [
            ("ucb, x by hand", best["ucb, bandit"] / hand, "<=", 1.5),
            ("ucb_double, x by hand", best["ucb_double, active"] / double, "<=", 1.5),
            ("own formula, x by hand", best[OWN] / hand, "<=", 2),
        ]
    limits.append(
        ("kibitzer, x ucb_double", best["kibitzer, active"] / best["ucb_double, active"], "<=", 1.5)
    )
    say("\nWhat was to be reached")
    for label, value, sign, goal in (
        ("ucb without looks, x floor", best["ucb, bandit"] / floor, "<=", 4),
        ("ucb_double at rate 0.1, x floor", best["ucb_double, active"] / floor, "<=", 7),
        ("ocucb, x floor", best["ocucb, bandit"] / floor, "<=", 14),
        ("etc_ocucb, x floor", best["etc_ocucb, active"] / floor, "<=", 16),
        ("own formula, x ucb", best[OWN] / best["ucb, bandit"], "<=", 1.5),
        ("draft of it, x final", best[DRAFT] / best[OWN], "<=", 2.5),
        ("ucb, K = 5000, ns per arm", arms["ucb, bandit, K = 5000"] / 5000, "<=", 1),
        *(
            (f"{case}, x ucb", arms[case] / arms[f"ucb, bandit, K = {n_arms}"], "<=", 4)
            for n_arms in (500, 5000)
            for case in (f"ocucb, bandit, K = {n_arms}", f"etc_ocucb, active, K = {n_arms}")
        ),
        *limits,
        ("all cores, 300 runs, x one core", list(ratios.values())[1], ">=", 0.9 * os.cpu_count()),
    ):
        reached = value <= goal if sign == "<=" else value >= goal
        say(f"{label:40} {value:9.2f} {sign} {goal:4g}   {'yes' if reached else 'NO'}")


def processor():
    """Return the name of the processor, if it is known."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def main():
    """Measure, print, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-peers", action="store_true", help="leave out the other libraries")
    folder = Path(__file__).parent / ".peers"
    parser.add_argument("--folder", type=Path, default=folder, help="where their environments are")
    arguments = parser.parse_args()
    say(f"{processor()}, {os.cpu_count()} cores; {platform.system()}; {time.strftime('%Y-%m-%d')}")
    used = {"Python": platform.python_version(), **versions()}
    say(", ".join(f"{name} {version}" for name, version in used.items()))
    with tempfile.TemporaryDirectory() as folder:
        times, floor = tell_policies(folder)
    arms = tell_arms(floor)
    ratios = tell_cores()
    tell_starts()
    tell_leaps()
    if not arguments.no_peers:
        tell_peers(arguments.folder, floor, min(times["ucb, bandit"][0]))
    tell_goals(times, floor, arms, ratios)
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
