"""The stages of dvc.yaml, one module per stage.

A module imports libraries in its functions, so that `run_stage` starts the supervisor before they are loaded.
"""
