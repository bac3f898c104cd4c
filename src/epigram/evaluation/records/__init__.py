"""What the stages write and read of evaluated systems."""
