"""Tools of the accuracy grid: each module is a program that trains on one folder of texts and predicts the others.

A program reads train.jsonl, test.jsonl (texts without labels) and task.json in the current folder and writes
predictions.json; see `task`. The programs of the peers run in environments of their own, without epigram.
"""
