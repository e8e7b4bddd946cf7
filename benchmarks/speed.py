"""Benchmark the simulator: stages, start-up, cores, leaps and other libraries (`make bench`).

The floor is a compiled loop that only draws one standard normal number per stage, with the generator
of kibitz and numba's own method. The cases of a table take turns in one process. The script reports
the smallest CPU time and the smallest wall time of each case, because machines are noisy. Ratios
refer to the floor of the same run. The output is printed and written to docs/performance.txt.
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
from scipy.sparse import coo_array

import kibitz
from kibitz.engine.jit import link
from kibitz.engine.rng import new_stream, normal
from kibitz.model.graphs import load_graph
from kibitz.policies import POLICIES
from kibitz.simulation.jobs import Job, play
from kibitz.simulation.results.dataset import versions
from kibitz.simulation.schedule import log_spaced

FIVE_MEANS, FOUR_MEANS = [2, 1.8, 1.5, 1, 0.5], [2, 1.8, 0.5, 0.2]
HORIZON, RUNS, REPETITIONS = 10_000, 200, 10
TEN_MEANS = np.linspace(1, 0, 10)
WORST_HUB = kibitz.graph(load_graph("star:9", 10))
BANDIT, ACTIVE = kibitz.bandit(), kibitz.active(0.1)
MANY_ARMS = {"ucb": BANDIT, "ucb_double": ACTIVE, "ocucb": BANDIT, "etc_ocucb": ACTIVE}
UCB_BY_HAND, DOUBLE_BY_HAND = "ucb by hand in C++", "ucb_double by hand in C++"
OWN_FORMULA, GENERIC_KERNEL = "own formula of UCB, bandit", "the same, generic kernel, bandit"
REPORT = Path(__file__).parents[1] / "docs" / "performance.txt"
lines: list[str] = []


def report(line: str = "") -> None:
    """Print a line and add it to the report."""
    print(line, flush=True)
    lines.append(line)


# ------------------------------------------------------------------------------------------- cases


def own_index(params, stage, counts, arm, mean):
    """Return the index of UCB, as a user would write it."""
    return mean + math.sqrt(6 * math.log(stage) / counts[arm])


@numba.njit(nogil=True)
def floor_loop(rng, n):
    """Return the sum of n standard normal numbers drawn by numba."""
    total = 0.0
    for _ in range(n):
        total += rng.standard_normal()
    return total


def normal_loop(stream, n):
    """Return the sum of n standard normal numbers drawn by kibitz."""
    total = 0.0
    for _ in range(n):
        total += normal(stream)
    return total


def numpy_ucb(runs, rng):
    """Play UCB in NumPy, vectorised over runs."""
    means = np.array(FIVE_MEANS)
    counts, sums = np.ones((runs, 5)), means + rng.standard_normal((runs, 5))
    rows = np.arange(runs)
    for stage in range(6, HORIZON + 1):
        arms = np.argmax(sums / counts + np.sqrt(6 * np.log(stage) / counts), axis=1)
        counts[rows, arms] += 1
        sums[rows, arms] += means[arms] + rng.standard_normal(runs)


def python_ucb(rng):
    """Play UCB in plain Python."""
    counts, sums = [1] * 5, [mean + rng.gauss(0, 1) for mean in FIVE_MEANS]
    for stage in range(6, HORIZON + 1):
        log = 6 * math.log(stage)
        arm = max(range(5), key=lambda i: sums[i] / counts[i] + math.sqrt(log / counts[i]))
        counts[arm] += 1
        sums[arm] += FIVE_MEANS[arm] + rng.gauss(0, 1)


def make_hand_written_cases(folder):
    """Return cases for UCB and UCB1-Double written in C++; without a compiler, return no cases."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        report("UCB by hand in C++: skipped, because there is no compiler (g++, clang++ or $CXX)")
        return {}
    library = Path(folder) / "ucb.so"
    options = ["-O3", "-march=native", "-shared", "-fPIC"]
    source = Path(__file__).parent / "ucb.cpp"
    subprocess.run([compiler, *options, "-o", library, source], check=True)
    integer_array, float_array = np.ctypeslib.ndpointer(np.int64), np.ctypeslib.ndpointer(np.float64)
    by_hand = ctypes.CDLL(library).play
    by_hand.argtypes = [ctypes.c_int64, ctypes.c_double, integer_array, ctypes.c_int64, float_array]
    by_hand.restype = None
    stages = log_spaced(HORIZON)
    regret = np.zeros((RUNS, stages.size))

    def case(rate):
        return lambda: by_hand(RUNS, rate, stages, stages.size, regret), RUNS * HORIZON

    return {UCB_BY_HAND: case(0.0), DOUBLE_BY_HAND: case(ACTIVE.rate)}


def make_job(policy, feedback, means, horizon=HORIZON, runs=RUNS, leap=False):
    """Return a job whose kernel is already compiled, so its measured time excludes compilation."""
    problem = kibitz.gaussian(means)
    setting = (policy, problem, feedback, horizon, log_spaced(horizon), 1)
    job = Job(None, *setting, 0, runs, leap, kernel="specialised")
    play(job._replace(horizon=10, stages=np.array([10]), end_run=1))
    return job


def make_case(job):
    """Return a case: a function that plays the job, and the number of stages that it plays."""
    return lambda: play(job), job.end_run * job.horizon


# -------------------------------------------------------------------------------------- measuring


def measure_call(function):
    """Return the CPU time and the wall time of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.process_time() - cpu, time.perf_counter() - wall


def measure(cases, repetitions):
    """Run the cases in turn; return the CPU times and wall times per stage of each case, in ns."""
    times = {label: ([], []) for label in cases}
    for _ in range(repetitions):
        for label, (function, stages) in cases.items():
            for values, duration in zip(times[label], measure_call(function), strict=True):
                values.append(duration / stages * 1e9)
    return times


def make_floor_cases():
    """Return the cases that measure the floor."""
    rng, stream, n = np.random.Generator(np.random.SFC64(1)), new_stream(1), 10**6
    own_loop = numba.njit(nogil=True)(link(normal_loop))
    floor_loop(rng, 10)
    own_loop(stream, 10)
    return {
        "floor: a normal number by numba": (lambda: floor_loop(rng, n), n),
        "the same number by kibitz": (lambda: own_loop(stream, n), n),
    }


def report_times(times, floor_ns):
    """Print a table of times per stage."""
    report(f"{'':40} {'CPU ns':>9} {'median':>9} {'wall ns':>9} {'x floor':>9}")
    for label, (cpu, wall) in times.items():
        smallest_ns, median_ns = min(cpu), statistics.median(cpu)
        ratio = smallest_ns / floor_ns
        report(f"{label:40} {smallest_ns:9.1f} {median_ns:9.1f} {min(wall):9.1f} {ratio:9.2f}")


def report_policies(folder):
    """Report the time per stage of each policy with five arms; return the times and the floor."""
    cases = make_floor_cases() | make_hand_written_cases(folder)
    for name, make in POLICIES.items():
        feedback = BANDIT if name in {"ucb", "ocucb", "kl_ucb"} else ACTIVE
        cases[f"{name}, {feedback.observer}"] = make_case(make_job(make(), feedback, FIVE_MEANS))
    own_policy = kibitz.index_policy("own", own_index)
    cases[OWN_FORMULA] = make_case(make_job(own_policy, BANDIT, FIVE_MEANS))
    cases[GENERIC_KERNEL] = make_case(
        make_job(own_policy, BANDIT, FIVE_MEANS)._replace(kernel="generic")
    )
    python_job = make_job(kibitz.python_policy(peers.FirstArm), BANDIT, FIVE_MEANS, runs=1)
    cases["python_policy, does nothing, bandit"] = make_case(python_job)
    n = 100 * HORIZON
    cases["ucb, NumPy over 100 runs"] = (lambda: numpy_ucb(100, np.random.default_rng(1)), n)
    cases["ucb, plain Python"] = (lambda: python_ucb(random.Random(1)), HORIZON)
    times = measure(cases, REPETITIONS)
    floor_ns = min(times["floor: a normal number by numba"][0])
    report(f"\nA stage, on one core: five arms, T = 10^4, active: rate 0.1, {RUNS} runs")
    report_times(times, floor_ns)
    return times, floor_ns


def report_arms(floor_ns):
    """Report the time per stage with 2 to 5000 arms and means from 1 to 0; return the times."""
    cases, numbers = {}, {}
    for name, feedback in MANY_ARMS.items():
        for n_arms, runs in {2: RUNS, 5: RUNS, 50: 40, 500: 10, 5000: 1}.items():
            means = np.linspace(1, 0, n_arms)
            label = f"{name}, {feedback.observer}, K = {n_arms}"
            cases[label] = make_case(make_job(POLICIES[name](), feedback, means, runs=runs))
            numbers[label] = n_arms
    times = measure(cases, 3)
    smallest_ns = {label: min(cpu) for label, (cpu, _) in times.items()}
    report("\nMany arms: equally spaced means, T = 10^4")
    report(f"{'':40} {'CPU ns':>9} {'per arm':>9} {'wall ns':>9} {'x floor':>9} {'x ucb':>9}")
    for label, n_arms in numbers.items():
        ratio = smallest_ns[label] / smallest_ns[f"ucb, bandit, K = {n_arms}"]
        report(
            f"{label:40} {smallest_ns[label]:9.1f} {smallest_ns[label] / n_arms:9.2f}"
            f" {min(times[label][1]):9.1f} {smallest_ns[label] / floor_ns:9.2f} {ratio:9.2f}"
        )
    return smallest_ns


def make_sparse_graph(n_arms, n_neighbours):
    """Return a graph in which each arm shows itself and `n_neighbours` random arms."""
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(n_arms), n_neighbours)
    columns = (rows + rng.integers(1, n_arms, rows.size)) % n_arms
    edges = coo_array((np.ones(rows.size), (rows, columns)), (n_arms, n_arms)).tocsr()
    return kibitz.graph(edges > 0, loops=True)


def report_graphs():
    """Report the time per stage with and without a graph; return the ratio of both for each case."""
    pairs = {
        "ucb, 10 arms": (10, RUNS, kibitz.ucb()),
        "kibitzer, 10 arms": (10, RUNS, kibitz.kibitzer()),
        "ucb, 5000 arms": (5000, 1, kibitz.ucb()),
    }
    graphs = {10: load_graph("ring", 10), 5000: None}
    cases = {}
    for label, (n_arms, runs, policy) in pairs.items():
        means, matrix = np.linspace(1, 0, n_arms), graphs[n_arms]
        shows = make_sparse_graph(n_arms, 10) if matrix is None else kibitz.graph(matrix)
        for kind, feedback in (("bandit", BANDIT), ("graph", shows)):
            cases[f"{label}, {kind}"] = make_case(make_job(policy, feedback, means, runs=runs))
    smallest_ns = {label: min(cpu) for label, (cpu, _) in measure(cases, 5).items()}
    report("\nGraphs: a ring of 10 arms, and 5000 arms with 10 neighbours each; T = 10^4")
    report(f"{'':40} {'CPU ns':>9} {'bandit':>9} {'x bandit':>9}")
    ratios = {}
    for label in pairs:
        graph_ns, bandit_ns = smallest_ns[f"{label}, graph"], smallest_ns[f"{label}, bandit"]
        ratios[f"{label} on a graph, x bandit"] = graph_ns / bandit_ns
        report(f"{label:40} {graph_ns:9.1f} {bandit_ns:9.1f} {graph_ns / bandit_ns:9.2f}")
    return ratios


def report_cores():
    """Report how much faster simulations and the floor run on all cores; return the speed-ups."""
    cores = os.cpu_count() or 1
    rngs = [np.random.Generator(np.random.SFC64(n)) for n in range(cores)]
    problem, policies = kibitz.gaussian(FIVE_MEANS), [POLICIES[name]() for name in MANY_ARMS]

    def simulate(threads, runs):
        kibitz.simulate(
            problem, ACTIVE, policies, horizon=HORIZON, runs=runs, seed=1, threads=threads,
            kernel="specialised",
        )  # fmt: skip

    def draw(threads):
        share = 20_000_000 // threads
        workers = [threading.Thread(target=floor_loop, args=(rng, share)) for rng in rngs[:threads]]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()

    report(f"\nAll cores: wall time of one thread over that of {cores}")
    ratios = {}
    simulate(1, 2)
    for label, function in (
        ("the floor", draw),
        (f"simulate, {len(policies)} policies, 300 runs", lambda threads: simulate(threads, 300)),
        (f"simulate, {len(policies)} policies, 3000 runs", lambda threads: simulate(threads, 3000)),
    ):
        one_thread, all_cores = [], []
        for _ in range(5):
            one_thread.append(measure_call(lambda: function(1))[1])  # noqa: B023 (called at once)
            all_cores.append(measure_call(lambda: function(cores))[1])  # noqa: B023
        ratios[label] = min(one_thread) / min(all_cores)
        report(f"{label:40} {min(one_thread):9.3f} s {min(all_cores):9.3f} s {ratios[label]:9.2f}")
    return ratios


TIME_TO_FIRST_RUN = """
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

NEW_FORMULA = """
import math, random, time
import kibitz
def seconds(horizon):
    start, constant = time.perf_counter(), random.uniform(1, 2)  # a new formula
    def index(params, stage, counts, arm, mean):
        return mean + math.sqrt(constant * math.log(stage) / counts[arm])
    kibitz.simulate(kibitz.gaussian([2, 1.8, 1.5, 1, 0.5]), kibitz.active(0.1),
                    kibitz.index_policy("new", index), horizon=horizon, runs=100, seed=1)
    return time.perf_counter() - start
first, step, _, leap = seconds(10**4), seconds(10**4), seconds(10**6), seconds(10**6)
print(step, leap)
"""


def report_starts():
    """Report the start-up time of commands, with an empty and a full cache."""
    command = [sys.executable, "-m", "kibitz.cli"]
    simulate = [*command, "simulate", "--means", "2,1.8,1.5,1,0.5", "--policy", "ucb"]
    simulate += ["--observer", "active", "--rate", "0.1", "--runs", "10"]
    report(f"\nStarts, whole processes{'':17} {'CPU s':>9} {'median':>9} {'wall s':>9}")
    with tempfile.TemporaryDirectory() as cache:
        settings = os.environ | {"XDG_CACHE_HOME": cache}

        def start(label, arguments, repetitions):
            cpu, wall, output = [], [], ""
            for _ in range(repetitions):
                times_before, start_time = os.times(), time.perf_counter()
                process = subprocess.run(
                    arguments, env=settings, check=True, capture_output=True, text=True
                )
                wall.append(time.perf_counter() - start_time)
                times_after = os.times()
                cpu.append(sum(times_after[2:4]) - sum(times_before[2:4]))
                output = process.stdout
            report(f"{label:40} {min(cpu):9.2f} {statistics.median(cpu):9.2f} {min(wall):9.2f}")
            return output

        start("kibitz --help", [*command, "--help"], 5)
        start("kibitz policies", [*command, "policies"], 5)
        start("import kibitz", [sys.executable, "-c", "import kibitz"], 5)
        start(
            "import kibitz and the simulator",
            [sys.executable, "-c", "import kibitz.simulation.simulate"],
            5,
        )
        start("kibitz simulate, empty cache", simulate, 1)
        start("kibitz simulate, second start", simulate, 5)
        output = start(
            "a simulation in Python, second start", [sys.executable, "-c", TIME_TO_FIRST_RUN], 5
        )
        compiles, busy_seconds = output.split()
        answer = "yes" if compiles == "True" else "no"
        report(f"    compiles: {answer}; busy after {float(busy_seconds):.2f} s")
        start("a new formula, first process, 100 runs", [sys.executable, "-c", NEW_FORMULA], 1)
        one_run_script = NEW_FORMULA.replace(
            "first, step", "first = seconds(10**4)\nraise SystemExit\nfirst, step"
        )
        start("a new formula, 100 runs of 10^4 stages", [sys.executable, "-c", one_run_script], 5)
        output = start("four of them, two leaping to 10^6", [sys.executable, "-c", NEW_FORMULA], 5)
        step, leap = map(float, output.split())
        report(f"    in a warm process: {step:.2f} s wall, leaping to 10^6 {leap:.2f} s")


def report_leaps():
    """Report the CPU time per run of the leaping engine."""
    report(
        f"\n{'Leaping: CPU ms per run':40}" + "".join(f"{f'T = 10^{e}':>10}" for e in (4, 6, 9, 12))
    )
    for label, policy, feedback, means in (
        ("ucb, passive 0.1", kibitz.ucb(), kibitz.passive(0.1), FOUR_MEANS),
        ("ucb, no looks", kibitz.ucb(), BANDIT, FOUR_MEANS),
        ("ucb_double, active 0.1", kibitz.ucb_double(), ACTIVE, FIVE_MEANS),
        ("etc_ocucb, active 0.1", kibitz.etc_ocucb(), ACTIVE, FIVE_MEANS),
        ("ftl_robin, active 0.1", kibitz.ftl_robin(), ACTIVE, FOUR_MEANS),
        ("ucb, ring of 10 arms", kibitz.ucb(), kibitz.graph(load_graph("ring", 10)), TEN_MEANS),
        ("ucb, 10 arms, worst is hub", kibitz.ucb(), WORST_HUB, TEN_MEANS),
    ):
        row = [measure_leap(policy, feedback, means, exponent, 10) for exponent in (4, 6, 9, 12)]
        report(f"{label:40}" + "".join(f"{ms:10.2f}" for ms in row))
    report(f"{'with 500 arms, means from 1 down to 0':40}{'T = 10^4':>10}{'T = 10^6':>10}")
    for name, feedback in {**MANY_ARMS, "kibitzer": ACTIVE}.items():
        many_means = np.linspace(1, 0, 500)
        row = [
            measure_leap(POLICIES[name](), feedback, many_means, exponent, 1) for exponent in (4, 6)
        ]
        report(f"{f'{name}, {feedback.observer}':40}" + "".join(f"{ms:10.2f}" for ms in row))


def measure_leap(policy, feedback, means, exponent, runs):
    """Return the CPU time in ms of a run that leaps over 10^exponent stages."""
    play, _ = make_case(make_job(policy, feedback, means, 10**exponent, runs, leap=True))
    return min(measure_call(play)[0] for _ in range(3)) * 1000 / runs


def report_peers(folder, floor_ns, ucb):
    """Report the speed of other libraries and the regret of their policies."""
    results = peers.measure(folder, lambda line: print(f"    ({line})", flush=True))
    report("\nOther libraries, UCB on the same five arms, one core; each in its own environment")
    report(f"{'':40} {'CPU ns':>9} {'median':>9} {'wall ns':>9} {'x floor':>9} {'x kibitz':>9}")
    for peer, result in results.items():
        if "error" in result:
            report(f"{peer:40} {result['error']}")
            continue
        cpu, wall = result["cpu_ns"], result["wall_ns"]
        report(
            f"{peer + ' ' + result['version']:40} {min(cpu):9.0f} {statistics.median(cpu):9.0f}"
            f" {min(wall):9.0f} {min(cpu) / floor_ns:9.0f} {min(cpu) / ucb:9.0f}"
        )
        regret = result["regret"]
        error = statistics.stdev(regret) / len(regret) ** 0.5
        report(f"    {result['policy']}; regret {statistics.mean(regret):.0f} ± {error:.0f}")
    report("\nPolicies of other libraries in kibitz, by python_policy, under equal noise")
    for line in peers.measure_regret(folder, lambda text: print(f"    ({text})", flush=True)):
        report(line)


def report_targets(times, floor_ns, arms, ratios, graph_ratios):
    """Report the performance targets and whether the measured numbers meet them."""
    smallest_ns = {label: min(cpu) for label, (cpu, _) in times.items()}
    limits = []
    if UCB_BY_HAND in smallest_ns:
        ucb_by_hand_ns, double_by_hand_ns = smallest_ns[UCB_BY_HAND], smallest_ns[DOUBLE_BY_HAND]
        limits = [
            ("ucb, x by hand", smallest_ns["ucb, bandit"] / ucb_by_hand_ns, "<=", 1.5),
            (
                "ucb_double, x by hand",
                smallest_ns["ucb_double, active"] / double_by_hand_ns,
                "<=",
                1.5,
            ),
            ("own formula, x by hand", smallest_ns[OWN_FORMULA] / ucb_by_hand_ns, "<=", 2),
        ]
    limits.append(
        (
            "kibitzer, x ucb_double",
            smallest_ns["kibitzer, active"] / smallest_ns["ucb_double, active"],
            "<=",
            1.5,
        )
    )
    report("\nTargets")
    for label, value, sign, target in (
        ("ucb without looks, x floor", smallest_ns["ucb, bandit"] / floor_ns, "<=", 4),
        ("ucb_double at rate 0.1, x floor", smallest_ns["ucb_double, active"] / floor_ns, "<=", 7),
        ("ocucb, x floor", smallest_ns["ocucb, bandit"] / floor_ns, "<=", 14),
        ("etc_ocucb, x floor", smallest_ns["etc_ocucb, active"] / floor_ns, "<=", 16),
        ("own formula, x ucb", smallest_ns[OWN_FORMULA] / smallest_ns["ucb, bandit"], "<=", 1.5),
        (
            "generic kernel, x specialised",
            smallest_ns[GENERIC_KERNEL] / smallest_ns[OWN_FORMULA],
            "<=",
            2.5,
        ),
        ("ucb, K = 5000, ns per arm", arms["ucb, bandit, K = 5000"] / 5000, "<=", 1),
        *(
            (f"{case}, x ucb", arms[case] / arms[f"ucb, bandit, K = {n_arms}"], "<=", 4)
            for n_arms in (500, 5000)
            for case in (f"ocucb, bandit, K = {n_arms}", f"etc_ocucb, active, K = {n_arms}")
        ),
        *((label, ratio, "<=", 2) for label, ratio in graph_ratios.items() if "5000" in label),
        *limits,
        ("all cores, 300 runs, x one core", list(ratios.values())[1], ">=", 0.9 * os.cpu_count()),
    ):
        is_met = value <= target if sign == "<=" else value >= target
        report(f"{label:40} {value:9.2f} {sign} {target:4g}   {'yes' if is_met else 'NO'}")


def read_processor():
    """Return the name of the processor, or the architecture if it is unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def main():
    """Run all benchmarks and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-peers", action="store_true", help="skip the other libraries")
    folder = Path(__file__).parent / ".peers"
    parser.add_argument(
        "--folder",
        type=Path,
        default=folder,
        help="folder of the virtual environments of the other libraries",
    )
    arguments = parser.parse_args()
    date = time.strftime("%Y-%m-%d")
    report(f"{read_processor()}, {os.cpu_count()} cores; {platform.system()}; {date}")
    library_versions = {"Python": platform.python_version(), **versions()}
    report(", ".join(f"{name} {version}" for name, version in library_versions.items()))
    with tempfile.TemporaryDirectory() as folder:
        times, floor_ns = report_policies(folder)
    arms = report_arms(floor_ns)
    graph_ratios = report_graphs()
    ratios = report_cores()
    report_starts()
    report_leaps()
    if not arguments.no_peers:
        report_peers(arguments.folder, floor_ns, min(times["ucb, bandit"][0]))
    report_targets(times, floor_ns, arms, ratios, graph_ratios)
    REPORT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
