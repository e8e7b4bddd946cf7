"""Compiling with numba, and the content that compiled code and saved numbers are known by."""
