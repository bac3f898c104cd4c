"""How a stage or a command runs as a process: signals, supervision, messages, outcome; no output depends on it."""
