"""The endpoints of the API, one module a kind of object."""
