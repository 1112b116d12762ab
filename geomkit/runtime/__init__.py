"""Kernels and where they run."""
