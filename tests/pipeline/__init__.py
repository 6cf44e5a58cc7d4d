"""The data pipeline: moved trees are compared with what they were."""
