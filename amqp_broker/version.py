"""The version of this broker: nothing else, so that everybody may ask."""

__version__ = "0.1.0"
