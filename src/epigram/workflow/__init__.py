"""Steps of the pipeline, one module per step: settings and folders in, results out. Stages and programs call them."""
