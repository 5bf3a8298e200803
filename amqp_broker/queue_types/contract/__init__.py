"""What every queue type and its queues keep to."""
