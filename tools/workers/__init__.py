"""Scripts that run inside the sandbox, also under other Pythons: each is one file that imports nothing of ours."""
