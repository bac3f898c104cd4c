"""Speed, memory and accuracy against the best known alternatives: `make bench` and `make bench-accuracy`.

Some peers need packages or weights that epigram does not depend on. The make targets install the fastText library and
MiniLM's weights; accelerate, which transformers' Trainer needs, is one of the test requirements. A family whose peer is
missing is skipped with a message.

`benchmarks.accuracy` is a grid of its own: docs/accuracy.md describes it.
"""
