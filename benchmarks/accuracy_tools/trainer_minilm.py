"""transformers' Trainer: MiniLM fine-tuned, with the learning rate and the epoch chosen on a tenth of the texts."""

from __future__ import annotations

import random
import time
from typing import Any

from benchmarks.accuracy_tools.task import Task, finish, minilm, read_task

RATES = (5e-5, 1e-4, 2e-4)  # tried in this order, each if the budget allows for MIN_EPOCHS
BATCH, LENGTH = 16, 256
MIN_EPOCHS, MAX_EPOCHS = 3, 12
WARM_UP = 0.1  # of the steps
HELD_OUT = 10  # one in so many texts
SHARE = 0.9  # of the budget, for training; epochs may take longer than the measured one
Rows = list[dict[str, Any]]


def encoded(tokenizer: Any, texts: list[str], labels: list[int] | None = None) -> Rows:
    """Return the texts in the format of the Trainer."""
    ids = tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]
    rows: Rows = [{"input_ids": one, "attention_mask": [1] * len(one)} for one in ids]
    return rows if labels is None else [row | {"labels": label} for row, label in zip(rows, labels, strict=True)]


def accuracy(found: Any) -> dict[str, float]:
    """Return the accuracy of an evaluation's predictions."""
    return {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())}


def deadline(task: Task) -> Any:
    """Return a callback that stops at the end of the time for training, if epochs take longer than the measured one."""
    from transformers import TrainerCallback

    class Deadline(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if task.terms.left(SHARE) < 0:
                control.should_training_stop = True

    return Deadline()


def trainer(task: Task, rows: Rows, dev: Rows, **settings: Any) -> Any:
    """Return a Trainer of MiniLM; `settings` are further TrainingArguments."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    arguments = TrainingArguments(
        output_dir=f"trainer-{settings.get('learning_rate', 0)}",
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=64,
        weight_decay=0.01,
        seed=task.terms.seed,
        use_cpu=True,
        dataloader_pin_memory=False,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        save_total_limit=1,
        **settings,
    )
    classes = len(set(task.labels))
    return Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=classes, use_safetensors=True),
        args=arguments,
        train_dataset=rows,
        eval_dataset=dev or None,
        data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(minilm())),
        compute_metrics=accuracy,
        callbacks=[deadline(task)],
    )


def seconds_of_an_epoch(task: Task, rows: Rows) -> float:
    """Return the seconds of an epoch, measured on a few steps after a warm-up."""
    count, took = min(len(rows), 4 * BATCH), 0.0
    for part in (rows[:BATCH], rows[-count:]):
        made = trainer(task, part, [], num_train_epochs=1, save_strategy="no")
        start = time.perf_counter()
        made.train()
        took = time.perf_counter() - start
    return took * len(rows) / count


def fits(task: Task, rows: Rows, dev: Rows) -> list[Any]:
    """Return a fitted Trainer for each learning rate that the budget allows for, with its best epoch's weights."""
    possible = task.terms.left(SHARE) / seconds_of_an_epoch(task, rows)
    rates = RATES[: max(1, min(len(RATES), int(possible / MIN_EPOCHS)))]
    epochs = max(1, min(MAX_EPOCHS, int(possible / len(rates))))
    made = [
        trainer(
            task,
            rows,
            dev,
            learning_rate=rate,
            num_train_epochs=epochs,
            warmup_steps=WARM_UP,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
        )
        for rate in rates
    ]
    for each in made:
        each.train()
    return made


def main() -> None:
    """Fit, and predict with the Trainer that is best on the held-out texts."""
    from transformers import AutoTokenizer

    task, tokenizer = read_task(), AutoTokenizer.from_pretrained(minilm())
    names = sorted(set(task.labels))
    rows = encoded(tokenizer, task.texts, list(map(names.index, task.labels)))
    random.Random(task.terms.seed).shuffle(rows)
    cut = max(len(rows) // HELD_OUT, 1)
    made = fits(task, rows[cut:], rows[:cut])
    best = max(made, key=lambda each: each.state.best_metric or 0.0)
    fitted = task.terms.used
    predicted = [names[i] for i in best.predict(encoded(tokenizer, task.tests)).predictions.argmax(1)]
    settings = f"learning rate {best.args.learning_rate:g} of {len(made)}, {best.args.num_train_epochs:g} epochs"
    finish(predicted, fitted=fitted, settings=settings, packages=["transformers", "accelerate", "torch"])


if __name__ == "__main__":
    main()
