"""Results of runs: the folders runs/NAME, their names, and the pages in Prefect's dashboard."""
