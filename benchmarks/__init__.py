"""Speed, memory and accuracy against the best known alternatives: `make bench` and `make bench-accuracy`.

Some peers are not dependencies of epigram: MiniLM's weights and the fastText library, which the make targets install,
and accelerate, which transformers' Trainer needs. A family whose peer is missing is skipped with a message.
"""
