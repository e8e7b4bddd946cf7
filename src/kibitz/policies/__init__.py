"""The policies of kibitz."""

from collections.abc import Callable

from kibitz.policies.bayes_ucb import bayes_ucb
from kibitz.policies.epsilon_greedy import epsilon_greedy
from kibitz.policies.etc import etc
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.forgetting_ucb import d_ucb, sw_ucb
from kibitz.policies.ftl import ftl, ftl_robin
from kibitz.policies.glr_ucb import glr_ucb
from kibitz.policies.imed import imed
from kibitz.policies.improved_ucb import improved_ucb
from kibitz.policies.index_policy import index_policy
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.kl_ucb import kl_ucb
from kibitz.policies.lookout import lookout
from kibitz.policies.max_n import max_n
from kibitz.policies.moss import moss, moss_anytime
from kibitz.policies.ocucb import ocucb
from kibitz.policies.policy import Policy
from kibitz.policies.scout import scout
from kibitz.policies.thompson import thompson
from kibitz.policies.top_two_thompson import top_two_thompson
from kibitz.policies.ucb import ucb, ucb_double, ucb_second
from kibitz.policies.ucb2 import ucb2

ALL = (
    ftl, ftl_robin, ucb, ucb_double, ucb_second, ocucb, etc, etc_ocucb, ucb2, improved_ucb, moss,
    moss_anytime, kl_ucb, thompson, epsilon_greedy, imed, bayes_ucb, top_two_thompson, kibitzer,
    scout, lookout, sw_ucb, d_ucb, glr_ucb,
)  # fmt: skip

#: The constructors of all policies by name, in the order of the paper.
POLICIES: dict[str, Callable[..., Policy]] = {make.__name__: make for make in ALL}

__all__ = ["POLICIES", "Policy", "index_policy", "max_n", *POLICIES]
