"""A process that runs agents imports neither numba nor the simulator."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import kibitz

def find_heavy_modules():
    rooms = ("numba", "llvmlite", "kibitz.engine", "kibitz.simulation")
    return {name for name in sys.modules if name.startswith(rooms)}

arguments = {"arms": ["blue", "green"], "rewards": "bounded", "seed": 1}
with kibitz.agent(sys.argv[1], "checkout", **arguments) as agent:
    agent.tell(agent.ask().id, 1.0)
    agent.tell(agent.look().id, 1.0)
    agent.observe("green", 0.5)
    agent.report(), agent.verdict(), agent.check(), list(agent.events())
    agent.export(sys.argv[1] + ".csv"), agent.export(sys.argv[1] + ".nc")
kibitz.from_log(sys.argv[1] + ".nc")
import kibitz.live.dashboard.routes, kibitz.live.service.app, kibitz.live.service.server
import kibitz.live.agent.rehearse
kibitz.live.service.app.create_app(sys.argv[1], kibitz.live.dashboard.routes.ROUTES)
print(sorted(find_heavy_modules()))
"""


def test_agents_and_the_service_import_neither_numba_nor_the_engine(tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "shop.db")], capture_output=True, text=True
    )
    assert process.stdout == "[]\n", process.stdout + process.stderr
