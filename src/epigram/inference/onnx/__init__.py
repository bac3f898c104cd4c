"""Export of saved models to ONNX, and their quantization."""
