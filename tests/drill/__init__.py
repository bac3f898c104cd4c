"""The fault drill: random faults at random moments, and after each a run that must end as if nothing had been.

python -m tests.drill --faults 200 --seed 0
"""
