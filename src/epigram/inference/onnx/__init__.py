"""Export of saved models to ONNX and OpenVINO, and their quantization."""
