"""The compiled simulator: the loop, its environment, and how numba compiles and caches it."""
