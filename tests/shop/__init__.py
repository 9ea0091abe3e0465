"""The shop of the test project: its pages, its jobs, its demonstration."""
