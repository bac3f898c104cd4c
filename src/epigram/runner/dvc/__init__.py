"""DVC: the graph of a pipeline, `dvc repro` in child processes, and the repair of damaged files."""
