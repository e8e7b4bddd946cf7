"""Before kibitz is imported: a place for compiled code that belongs to the tests of this clone.

It survives from run to run, or everything would be compiled anew each time. What is kept is named by
what it was made from, so that nothing in it can be out of date. `platformdirs` follows XDG_CACHE_HOME
on Linux, in later versions also on macOS; elsewhere the tests share the folder of the user. Workers,
and programs that the tests start, inherit it.
"""

import os
from pathlib import Path

os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".cache")

# More than a few seconds of processor time with nothing kept: most goes into compiling a loop for
# each of many policies, or into playing long enough to test a law. Rooms, files, or tests by name.
SLOW = (
    "cli/",
    "live/",
    "planning/",
    "reproduction/",
    "compiling/test_jit.py::test_an_own_policy_is_never_out_of_date",
    "compiling/test_plain.py::test_without_the_private_parts_of_numba_the_numbers_are_the_same",
    "policies/test_contract.py::test_runs_depend_on_seed_and_run_only",
    "policies/test_contract.py::test_threads_and_jobs_do_not_matter",
    "policies/test_contract.py::test_a_longer_horizon_begins_as_a_shorter_one",
    "policies/test_kibitzer.py::test_the_kl_form_is_the_better_one_for_rare_rewards",
    "simulator/test_scale.py",
    "simulator/test_engine.py",
    "bounds/test_kibitzer.py",
    "bounds/test_junk.py",
    "compiling/test_jit.py::test_kept_code_of_one_policy_is_not_mixed_up_with_new_code_of_another",
    "compiling/test_symbols.py",
    "policies/test_contract.py::test_stretches_make_the_decisions_of_the_plain_formula",
    "policies/test_contract.py::test_so_do_long_stretches_many_arms_and_two",
    "policies/test_contract.py::test_one_compilation_serves_all_settings",
    "model/test_feedback.py::test_several_looks_come_with_each_arrival",
    "simulator/test_leap.py",
    "bounds/test_sandwich.py",
    "test_docs.py::test_the_python_of_a_page_runs",
    "test_docs.py::test_an_example_runs_and_prints_something",
)


def pytest_collection_modifyitems(items):
    """Mark as slow what is listed above; `make check` leaves it out."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent).as_posix()
        room = f"{place.partition('/')[0]}/"
        if {place, room, f"{place}::{item.originalname}"} & {*SLOW}:
            item.add_marker("slow")
