"""Run several processes that use one agent, and kill some of them at random moments.

Usage: `python worker.py URL FOLDER KILLS OPERATIONS SEED`. The script forks four processes, and each
process appends its answered operations to its own file. The script kills (kill -9) and restarts
processes KILLS times, then waits until all operations are done. It prints the number of kills.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import kibitz

N_PROCESSES = 4


def work(url, file, worker_number, n_restarts, n_operations):
    """Ask, tell and observe; write one line to the file for each answer."""
    output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    agent = kibitz.agent(url, "fleet")
    for n in range(n_operations):
        key = f"{worker_number}-{n_restarts}-{n}"
        decision = agent.ask(key=key)
        os.write(output, f"ask {decision.id} {decision.arm} {key}\n".encode())
        reward = float(decision.id % 7)
        result = agent.tell(decision.id, reward)
        os.write(output, f"tell {decision.id} {reward} {result}\n".encode())
        if n % 10 == 0:
            result = agent.observe("b", 1.0, key=f"observe-{key}")
            os.write(output, f"observe {key} {result}\n".encode())


def start(url, folder, worker_number, n_restarts, n_operations):
    child = os.fork()
    if child == 0:
        try:
            work(
                url, folder / f"{worker_number}-{n_restarts}", worker_number, n_restarts, n_operations
            )
        except BaseException as error:
            (folder / f"error-{worker_number}-{n_restarts}").write_text(repr(error))
            os._exit(1)
        os._exit(0)
    return child


def main(url, folder, n_kills, n_operations, seed):
    folder, rng = Path(folder), random.Random(seed)
    restarts = dict.fromkeys(range(N_PROCESSES), 0)
    children = {p: start(url, folder, p, 0, n_operations) for p in restarts}
    n_killed = 0
    while n_killed < n_kills:
        time.sleep(rng.uniform(0.0, 0.05))
        worker_number = rng.randrange(N_PROCESSES)
        os.kill(children[worker_number], signal.SIGKILL)
        os.waitpid(children[worker_number], 0)
        n_killed += 1
        restarts[worker_number] += 1
        children[worker_number] = start(
            url, folder, worker_number, restarts[worker_number], n_operations
        )
    for child in children.values():
        os.waitpid(child, 0)
    print(n_killed)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
