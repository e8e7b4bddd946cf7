"""The option --dask: simulate on a Dask cluster."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from kibitz.cli import option

LOCAL_ADDRESS = "local"
CONNECT_TIMEOUT = "10s"


@contextmanager
def open_cluster(address: str | None) -> Iterator[Executor | None]:
    """Yield the executor of the Dask cluster at an address, or None without an address.

    The address "local" starts a cluster on this machine.
    """
    if not address:
        yield None
        return
    option.check_installed("distributed", "dask", "--dask")
    import logging

    from distributed import Client, LocalCluster

    from kibitz.simulation.executors import count_cores

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # Dask logs every worker that ends
    if address == LOCAL_ADDRESS:
        worker_options = {"n_workers": count_cores(), "threads_per_worker": 1}
        with (
            LocalCluster(
                **worker_options, dashboard_address=":0", silence_logs=logging.CRITICAL
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client.get_executor()
        return
    try:
        client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise option.OptionError(
            f"--dask: no scheduler answers at {address!r} ({error}); check the address, or use "
            f"--dask {LOCAL_ADDRESS}"
        ) from None
    with client:
        yield client.get_executor()
