"""What is read off a message's properties and headers, and added to them."""
