"""Bodies of the flows `retrain`, `drift_check` and `refresh_pos`: new rows, drift, and challenges of the champion."""
