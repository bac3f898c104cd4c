"""Commands that set up and tend a project."""
