"""HTTP server of `epigram serve`: predictions of saved models as JSON, metrics, and a page to try texts."""
