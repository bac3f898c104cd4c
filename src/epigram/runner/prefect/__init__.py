"""Bodies of the Prefect flows `pipeline` and `sweep`, and the server that they use."""
