"""The compiled simulator: the loop, its environment, and its compilation and caching by numba."""
