"""Speed and memory, against what a user would pick instead: `make bench`, or python -m benchmarks.run [FAMILY …]."""
