"""The Prefect server of a run, and the service behind `epigram dashboard`."""
