"""Objectives: what a Trainer minimizes and how it scores a model. Each module defines one."""
