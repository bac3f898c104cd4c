"""Commands that run the pipeline."""
