"""Order of the stages of a run, and the processors and GPUs that each one gets."""
