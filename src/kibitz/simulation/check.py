"""Check a policy as `simulate` does before it plays one."""

from kibitz.engine.kernel import make_generic_kernel, make_kernel
from kibitz.model.feedback import active
from kibitz.policies.check import check_promises
from kibitz.policies.policy import Policy, check_policy
from kibitz.policies.spec import named_spec


def check(policy: Policy) -> None:
    """Raise ValueError if `simulate` would reject a policy for every problem.

    The functions of your own policy must compile. An index must be finite, non-decreasing in `stage`
    and `mean` and non-increasing in every count; the policy must pull the arm of largest index and
    look at the runner-up or in turn. Every policy must choose one of the arms and must not modify the
    state when it decides. Its decisions must be the same whether observations are reported one by one
    or several at once. The random test inputs are the same in each call. Passing is not a proof.

    Parameters
    ----------
    policy
        A policy of kibitz or your own.
    """
    check_promises(check_policy(policy))
    if named_spec(policy) is None:
        feedback = active(0.5)
        generic = make_generic_kernel(policy, feedback, False)
        (generic or make_kernel(policy, feedback, False, 1)).compile()
