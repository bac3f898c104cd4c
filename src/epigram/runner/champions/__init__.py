"""The champion, the model in use: its history in git, and the link to its run."""
