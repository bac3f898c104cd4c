"""Search of a project: its workspace, the stages that encode the texts, and the process of its trials."""
