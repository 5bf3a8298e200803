"""The pages of the management process: their files, and the sessions of those who have logged in with them."""
