"""The program put together: the only room that knows all others."""
