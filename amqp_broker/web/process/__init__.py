"""The management process: its listeners, its application, its start."""
