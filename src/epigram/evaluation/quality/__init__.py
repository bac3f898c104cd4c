"""Quality of the training rows: suspected labels, near duplicates, and the learning curve."""
