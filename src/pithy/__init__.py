"""Short-text classifiers, Chinese and English: trained, compared, depth-pruned and shipped."""
