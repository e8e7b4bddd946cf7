"""Who plays, on the command line: `--dask ADDRESS`, or `--dask local`."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from kibitz.cli import parse

LOCAL = "local"
PATIENCE = "10s"  # for a scheduler to answer


@contextmanager
def executor_at(address: str | None) -> Iterator[Executor | None]:
    """Give the executor of a Dask cluster; none without an address, for threads."""
    if not address:
        yield None
        return
    parse.check_installed("distributed", "dask")
    import logging

    from distributed import Client, LocalCluster

    from kibitz._validation import invalid
    from kibitz.simulation.executors import cores

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it tells of each worker's end
    if address == LOCAL:
        one_each = {"n_workers": cores(), "threads_per_worker": 1}
        with (
            LocalCluster(
                **one_each, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client.get_executor()
        return
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        wanted = "local, or the address of a scheduler that answers"
        raise ValueError(f"{invalid('dask', wanted, address)} ({error})") from None
    with client:
        yield client.get_executor()
