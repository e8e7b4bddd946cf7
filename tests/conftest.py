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
    "compiling/",
    "live/",
    "planning/",
    "reproduction/",
    "bounds/test_junk.py",
    "bounds/test_kibitzer.py",
    "bounds/test_kibitzer_page.py",
    "bounds/test_lower.py::test_every_bound_is_a_number_everywhere",
    "bounds/test_lower.py::test_more_looks_prove_less_and_more_stages_prove_more",
    "bounds/test_lower.py::test_the_active_maximum_is_the_largest_over_a_million_stages",
    "bounds/test_sandwich.py",
    "bounds/test_summary.py",
    "bounds/test_trivial.py::test_no_bound_is_above_it",
    "bounds/test_upper.py::test_a_larger_set_of_arms_has_a_larger_bound_only_if_the_double_logarithm_is_clipped",
    "bounds/test_upper.py::test_etc_drops_arms_when_it_should_on_simulated_averages",
    "bounds/test_upper.py::test_every_bound_is_a_sum_over_arms_in_the_caller_s_order",
    "model/test_feedback.py::test_periodic_looks_are_counted_in_the_engine",
    "model/test_feedback.py::test_several_looks_come_with_each_arrival",
    "policies/test_check.py::test_our_own_policies_pass",
    "policies/test_contract.py::test_a_longer_horizon_begins_as_a_shorter_one",
    "policies/test_contract.py::test_one_compilation_serves_all_settings",
    "policies/test_contract.py::test_runs_depend_on_seed_and_run_only",
    "policies/test_contract.py::test_so_do_long_stretches_many_arms_and_two",
    "policies/test_contract.py::test_stretches_make_the_decisions_of_the_plain_formula",
    "policies/test_contract.py::test_threads_and_jobs_do_not_matter",
    "policies/test_etc_ocucb.py::test_agrees_with_the_reference",
    "policies/test_kibitzer.py::test_loses_several_times_less_than_the_paper_s_policies",
    "policies/test_kibitzer.py::test_the_kl_form_is_the_better_one_for_rare_rewards",
    "policies/test_ocucb.py::test_agrees_with_the_reference",
    "policies/test_ocucb.py::test_simulations_are_the_same_with_sums_that_are_not_kept",
    "simulator/test_chunks.py",
    "simulator/test_cluster.py",
    "simulator/test_draft.py",
    "simulator/test_engine.py",
    "simulator/test_leap.py",
    "simulator/test_results.py",
    "simulator/test_scale.py",
    "simulator/test_simulation.py::test_a_damaged_file_is_refused_and_left_alone",
    "simulator/test_simulation.py::test_an_index_that_numba_cannot_compile_is_refused_with_the_reason",
    "simulator/test_simulation.py::test_ctrl_c_on_the_command_line_ends_cleanly",
    "simulator/test_tables.py",
    "simulator/test_watch.py",
    "test_docs.py::test_an_example_runs_and_prints_something",
    "test_docs.py::test_the_commands_of_the_readme_exist_with_the_options_shown",
    "test_docs.py::test_the_python_of_a_page_runs",
    "test_site.py",
    "test_habits.py::test_the_commands_that_try_the_wheel_work",
)


def pytest_collection_modifyitems(items):
    """Mark as slow what is listed above; `make check` leaves it out."""
    for item in items:
        place = item.path.relative_to(Path(__file__).parent).as_posix()
        room = f"{place.partition('/')[0]}/"
        if {place, room, f"{place}::{item.originalname}"} & {*SLOW}:
            item.add_marker("slow")
