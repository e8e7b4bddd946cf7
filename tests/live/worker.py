"""Run several processes that use one agent, and kill some of them at random moments.

Usage: `python worker.py URL FOLDER KILLS OPERATIONS SEED`. Four processes, forked from this process,
each append their answered operations to a separate file. Processes are killed (kill -9) and restarted
until all operations are done. The script prints the number of kills.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import kibitz

N_PROCESSES = 4


def work(url, acknowledged, place, life, n_operations):
    """Ask, tell and observe; write one line for each answer."""
    out = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    agent = kibitz.agent(url, "fleet")
    for n in range(n_operations):
        key = f"{place}-{life}-{n}"
        decision = agent.ask(key=key)
        os.write(out, f"ask {decision.id} {decision.arm} {key}\n".encode())
        reward = float(decision.id % 7)
        result = agent.tell(decision.id, reward)
        os.write(out, f"tell {decision.id} {reward} {result}\n".encode())
        if n % 10 == 0:
            result = agent.observe("b", 1.0, key=f"observe-{key}")
            os.write(out, f"observe {key} {result}\n".encode())


def start(url, folder, place, life, n_operations):
    child = os.fork()
    if child == 0:
        try:
            work(url, folder / f"{place}-{life}", place, life, n_operations)
        except BaseException as error:
            (folder / f"error-{place}-{life}").write_text(repr(error))
            os._exit(1)
        os._exit(0)
    return child


def main(url, folder, n_kills, n_operations, seed):
    folder, rng = Path(folder), random.Random(seed)
    lives = dict.fromkeys(range(N_PROCESSES), 0)
    children = {p: start(url, folder, p, 0, n_operations) for p in lives}
    kills = 0
    while kills < n_kills:
        time.sleep(rng.uniform(0.0, 0.05))
        place = rng.randrange(N_PROCESSES)
        os.kill(children[place], signal.SIGKILL)
        os.waitpid(children[place], 0)
        kills += 1
        lives[place] += 1
        children[place] = start(url, folder, place, lives[place], n_operations)
    for child in children.values():
        os.waitpid(child, 0)
    print(kills)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
