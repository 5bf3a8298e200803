"""What a turn is made of. Nothing in here knows of a broker."""
