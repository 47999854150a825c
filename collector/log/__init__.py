"""What stands between the receiver and the store."""
