"""Training, comparison, depth pruning and deployment of short-text classifiers for Chinese and English."""
