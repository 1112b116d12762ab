"""Kernels that users write in Python: compiled for every core and for CUDA, with adjoints."""
