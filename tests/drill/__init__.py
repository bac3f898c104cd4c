"""Fault injection tests: random faults at random moments, and after each a run that must recover completely.

python -m tests.drill --faults 200 --seed 0
"""
