"""Speed, memory and accuracy against the best known alternatives: `make bench` and `make bench-accuracy`.

Some peers are no dependencies of pithy: MiniLM's weights and the fastText library, which the targets install, and
accelerate for the transformers library's Trainer. A family whose peer is missing is skipped with a message.
"""
