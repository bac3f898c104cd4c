"""The stages of dvc.yaml, one module per stage: they read settings and call the step of the same name in `workflow`.

A module imports its step in `main`, so that `run_stage` starts the supervisor before libraries are loaded.
"""
