"""Origins of data sets: descriptions, downloads, archives, databases, and files that a user adds."""
