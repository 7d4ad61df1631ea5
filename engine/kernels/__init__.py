"""Triton kernels. Nothing here is imported unless a GPU serves, or a test runs them in Triton's interpreter."""
