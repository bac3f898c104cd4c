"""AutoGluon's MultiModalPredictor: MiniLM fine-tuned with settings for few texts.

By default, a step has 128 texts of up to 512 tokens, which leaves four steps an epoch with 500 texts, and the weights
are averaged after the end of the time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.accuracy_tools.task import finish, minilm, read_task

SHARE = 0.9  # of the budget, for the fit, which may end late


# torchvision's build in the package index needs PyTorch with CUDA. Without its operators, which texts do not need, its
# import fails at these two.
OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def main() -> None:
    """Fit within the budget and predict."""
    import pandas
    import torch

    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in OPERATORS:
        library.define(name + SIGNATURE)
    from autogluon.multimodal import MultiModalPredictor

    task = read_task()
    train = pandas.DataFrame({"text": task.texts, "label": task.labels})
    predictor = MultiModalPredictor(label="label", eval_metric="accuracy", path="model", verbosity=0)
    predictor.fit(
        train,
        time_limit=task.terms.left(SHARE),
        seed=task.terms.seed,
        hyperparameters={
            "model.names": ["hf_text"],
            "model.hf_text.checkpoint_name": minilm(),
            "model.hf_text.max_text_len": 256,
            "model.hf_text.pooling_mode": "mean",
            "env.batch_size": 16,
            "env.per_gpu_batch_size": 16,
            "optim.lr": 2e-4,
            "optim.val_check_interval": 1.0,
            "optim.top_k": 1,
            "env.num_gpus": 0,
            "env.num_workers": 0,
            "env.precision": 32,
        },
    )
    fitted = task.terms.used
    predicted = predictor.predict(pandas.DataFrame({"text": task.tests}))
    finish(
        [str(label) for label in predicted],
        fitted=fitted,
        settings="hf_text with MiniLM, batches of 16, learning rate 2e-4",
        packages=["autogluon.multimodal", "transformers", "torch"],
    )


if __name__ == "__main__":
    main()
